/* A device program that is hard to decode: 20 unrolled rounds of a state machine
 * over the minor number, 798 instructions. benches/README.md says how to use it. */
typedef unsigned int u32; typedef unsigned long long u64;
struct ctx { u32 access_type, major, minor; };
__attribute__((section("cgroup/dev"),used)) int policy(struct ctx *c){
  u32 s=1, m=c->minor ^ (c->major<<7), a=c->access_type>>16;
#pragma clang loop unroll(full)
  for(int i=0;i<20;i++){
    switch(s&7){
      case 0: s = (m>>i)&1 ? s*5+3 : s+7; break;
      case 1: s = (m>>(i/2))&1 ? s+11 : s*3+1; break;
      case 2: s ^= m>>i; break;
      case 3: s += a; break;
      case 4: s = s*7 + (m&15); break;
      case 5: s -= (m>>3)&3; break;
      case 6: s ^= 0x55; break;
      default: s = (s>>1) + m; break;
    }
  }
  return (s%5)!=0;
}
char _license[] __attribute__((section("license"),used))="GPL";
