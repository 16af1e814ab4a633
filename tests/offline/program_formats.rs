//! Reading programs: every captured program in every format it can be saved in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gpumap::bytecode::{Insn, SavedProgram, disasm, maps, read};
use gpumap::model::{Device, DeviceType, MapType, Request, Verdict};
use gpumap::observation::Answer;
use gpumap::policy::{Combination, Context, Decoder};
use proptest::prelude::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs")
}

/// The stems of all captured programs: `fixtures/programs/WRITER/NAME`.
fn captures() -> Vec<PathBuf> {
    let writers = fs::read_dir(root()).unwrap().map(|writer| writer.unwrap().path());
    let files = writers.flat_map(|writer| fs::read_dir(writer).unwrap().map(|file| file.unwrap().path()));
    let mut stems: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "xlated"))
        .map(|file| file.with_extension(""))
        .collect();
    stems.sort();
    assert!(stems.len() >= 44, "the captures are gone: {}", stems.len());
    stems
}

/// Appends an extension to a stem, which may itself hold dots.
fn file(stem: &Path, extension: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn one(content: &[u8]) -> SavedProgram {
    let mut programs = read(content).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(programs.len(), 1);
    programs.remove(0)
}

fn without_opcodes(listing: &str) -> String {
    listing.lines().filter(|line| line.contains(':')).map(|line| format!("{line}\n")).collect()
}

fn post() -> String {
    fs::read_to_string(root().join("slurm/users-post.txt")).unwrap()
}

/// Make sure that the disassembler prints what bpftool prints, for every
/// instruction that real software has loaded.
#[test]
fn disassembly_is_bpftools() {
    for stem in captures() {
        let listing = fs::read_to_string(file(&stem, "txt")).unwrap();
        let program = one(&fs::read(file(&stem, "xlated")).unwrap());
        let calls = one(listing.as_bytes()).calls;
        let printed: String = disasm::walk(&program.insns)
            .map(|(pc, _)| format!("{pc:4}: {}\n", disasm::text(&program.insns, pc, &calls)))
            .collect();
        assert_eq!(printed, without_opcodes(&listing), "{}", stem.display());
    }
}

/// The offset of an instruction of which a listing does not show the sign.
const NOT_SHOWN: i16 = i16::MIN;

/// Whether two instructions are one, but for what a listing does not show.
fn is_listed_as(listed: &[Insn], raw: &[Insn]) -> bool {
    let is_open = |insn: &Insn| match insn.code & 0xf7 {
        0xb4 | 0xb7 => insn.code & 8 != 0,
        code => [0x34, 0x37, 0x94, 0x97].contains(&code),
    };
    let same = |(listed, raw): (&Insn, &Insn)| match is_open(raw) {
        true => listed.off == NOT_SHOWN && Insn { off: raw.off, ..*listed } == *raw,
        false => listed == raw,
    };
    listed.len() == raw.len() && listed.iter().zip(raw).all(same)
}

/// Make sure that a listing is the same program as its raw bytes; one without opcodes
/// but for what it does not show.
#[test]
fn listings_are_the_raw_program() {
    for stem in captures() {
        let raw = one(&fs::read(file(&stem, "xlated")).unwrap());
        let listing = fs::read_to_string(file(&stem, "txt")).unwrap();
        let exact = one(listing.as_bytes());
        assert_eq!(exact.insns, raw.insns, "{}", stem.display());
        let listed = one(without_opcodes(&listing).as_bytes());
        assert!(is_listed_as(&listed.insns, &raw.insns), "{}", stem.display());
        assert_eq!((&listed.map_ids, &exact.map_ids), (&raw.map_ids, &raw.map_ids), "{}", stem.display());
    }
}

/// What `fields` say of the verdict about minors 0 to 255 of c 195, by read.
fn verdicts(program: SavedProgram) -> Vec<Verdict> {
    let program = program.into_program(0);
    let context = Context { combination: Combination::Retval, ..Context::default() };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[&program], &context);
    let device = |minor| Device { kind: DeviceType::Char, major: 195, minor };
    (0..256).map(|minor| decoder.verdict(policy, device(minor), Request::Read)).collect()
}

/// Make sure that a captured program's listing without opcodes decides as the program
/// itself: that what it does not show does not matter.
#[test]
fn what_a_listing_hides_does_not_matter() {
    for stem in captures().iter().filter(|stem| !stem.to_string_lossy().contains("libvirt")) {
        let raw = one(&fs::read(file(stem, "xlated")).unwrap());
        let listing = without_opcodes(&fs::read_to_string(file(stem, "txt")).unwrap());
        assert_eq!(verdicts(one(listing.as_bytes())), verdicts(raw), "{}", stem.display());
    }
}

/// Instructions of `clang -mcpu=v4`, each with what bpftool 7.1 prints of it: a program
/// of the minor number (r2) that leaves its verdict in r0.
const HIDDEN: [(Insn, &str); 3] = [
    (Insn { code: 0xbf, dst: 3, src: 2, off: 8, imm: 0 }, "(bf) r3 = r2"),
    (Insn { code: 0xbc, dst: 3, src: 2, off: 8, imm: 0 }, "(bc) w3 = w2"),
    (Insn { code: 0x37, dst: 3, src: 0, off: 1, imm: -3 }, "(37) r3 /= -3"),
];

/// Make sure that a listing of an older bpftool, which shows newer instructions as
/// others, is read right where it has opcodes, and where it has none gives no wrong
/// verdict: some are known, the others say what to add.
#[test]
fn older_bpftool() {
    for (hidden, text) in HIDDEN {
        let before = "   0: (61) r2 = *(u32 *)(r1 +8)\n   1: (61) r3 = *(u32 *)(r1 +8)\n";
        let after = "   3: (b7) r0 = 1\n   4: (66) if w3 s> 0xfffffffe goto pc+1\n   5: (b7) r0 = 0\n   6: (95) exit\n";
        let bare = format!("{before}   2: {text}\n{after}");
        let plain: Vec<Insn> = one(bare.as_bytes()).insns;
        let mut insns: Vec<Insn> = plain
            .iter()
            .map(|insn| Insn { off: if insn.off == NOT_SHOWN { 0 } else { insn.off }, ..*insn })
            .collect();
        insns[2] = hidden;
        let truth = verdicts(SavedProgram { insns: insns.clone(), ..SavedProgram::default() });
        assert!(truth.contains(&Verdict::Allow) && truth.contains(&Verdict::Deny), "{text}");

        let with_bytes = with_opcodes(&insns).replace(&disasm::text(&[hidden], 0, &BTreeMap::new()), text);
        let exact = one(with_bytes.as_bytes());
        assert_eq!(exact.insns, insns);
        assert!(exact.note.unwrap().contains("line 5: the text says"));

        let listed = one(bare.as_bytes());
        let found = verdicts(listed.clone());
        let wrong =
            found.iter().zip(&truth).filter(|(found, truth)| **found != Verdict::Unknown && found != truth);
        assert_eq!(wrong.count(), 0, "{text}");
        assert!(found.contains(&Verdict::Unknown), "{text}");
        let program = listed.into_program(0);
        let mut decoder = Decoder::new();
        let context = Context { combination: Combination::Retval, ..Context::default() };
        let policy = decoder.policy(&[&program], &context);
        let reasons = decoder.reasons(policy).join("; ");
        assert!(reasons.contains("instruction 2,"), "{text}: {reasons}");
        assert!(reasons.contains("`opcodes`"), "{text}: {reasons}");
    }
}

/// Make sure that an address whose move a listing does not show whole is no address where
/// the program compares it and only a path that nobody goes reads through it: the move
/// may extend a sign, and the lowest byte of the address may be zero.
#[test]
fn a_move_that_is_only_compared() {
    let listing = "   0: (bf) r6 = r1\n   1: (b7) r0 = 1\n   2: (b7) r3 = 7\n   3: (55) if r6 != 0x0 goto pc+3\n   4: (b7) r0 = 0\n   5: (15) if r3 == 0x7 goto pc+1\n   6: (61) r0 = *(u32 *)(r6 +0)\n   7: (95) exit\n";
    let found = verdicts(one(listing.as_bytes()));
    assert!(found.iter().all(|verdict| *verdict == Verdict::Unknown), "{found:?}");
    let used =
        listing.replace("(b7) r0 = 0", "(61) r0 = *(u32 *)(r6 +0)").replace("(55) if r6 !=", "(15) if r6 ==");
    assert!(!verdicts(one(used.as_bytes())).contains(&Verdict::Unknown), "{used}");
}

/// Make sure that the kernel's tag proves what a listing does not show.
#[test]
fn a_tag_proves_a_listing() {
    let stem = root().join("systemd/252-closed-gpu");
    let raw = one(&fs::read(file(&stem, "xlated")).unwrap());
    let listing = without_opcodes(&fs::read_to_string(file(&stem, "txt")).unwrap());
    let header = "7: cgroup_device  name sd_devices  tag d1a7747788f527ce  gpl\n";
    assert_eq!(one(format!("{header}{listing}").as_bytes()).insns, raw.insns);
    let other = header.replace("d1a7", "d1a8");
    assert_ne!(one(format!("{other}{listing}").as_bytes()).insns, raw.insns);
}

/// Make sure that what terminals and tools put around a listing is no part of it, and
/// that JSON below a prompt is read.
#[test]
fn wrapped_listings() {
    let stem = root().join("systemd/252-closed-gpu");
    let listing = fs::read_to_string(file(&stem, "txt")).unwrap();
    let plain = one(listing.as_bytes());
    let numbered: String =
        listing.lines().enumerate().map(|(index, line)| format!("{:6}\t{line}\n", index + 1)).collect();
    let coloured = listing.replace("exit", "\u{1b}[01;31m\u{1b}[Kexit\u{1b}[m\u{1b}[K");
    for wrapped in [numbered, coloured] {
        assert_eq!(one(wrapped.as_bytes()), plain);
    }
    let prompt = "[root@gpu01 ~]#";
    for json in [
        bpftool_json(&plain, true).to_string(),
        serde_json::to_string_pretty(&bpftool_json(&plain, true)).unwrap(),
    ] {
        let pasted = format!("{prompt} bpftool -j prog dump xlated id 7 opcodes\n{json}\n{prompt} \n");
        assert_eq!(one(pasted.as_bytes()), plain, "{pasted}");
        let same_line = format!("{prompt} bpftool -j prog dump xlated id 7 opcodes\n{json}{prompt} ");
        let _ = read(same_line.as_bytes());
    }
    let graph = "digraph \"DOT graph for eBPF program\" {\nsubgraph \"cluster_0\" {\n";
    assert!(read(graph.as_bytes()).unwrap_err().to_string().contains("`opcodes`"));
}

/// A log of the verifier, of Linux 6.1.
const LOG: &str = "0: R1=ctx(off=0,imm=0) R10=fp0
0: (61) r2 = *(u32 *)(r1 +0)          ; R1=ctx(off=0,imm=0) R2_w=scalar(umax=4294967295,var_off=(0x0; 0xffffffff))
1: (54) w2 &= 65535                   ; R2_w=scalar(umax=65535,var_off=(0x0; 0xffff))
2: (b7) r0 = 0                        ; R0_w=0
3: (55) if r2 != 0x2 goto pc+1        ; R2_w=2
4: (b7) r0 = 1                        ; R0_w=1
5: (95) exit

from 3 to 5: R0=0 R1=ctx(off=0,imm=0) R2=scalar(umax=65535,var_off=(0x0; 0xffff)) R10=fp0
5: (95) exit
processed 7 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
";

/// Make sure that verifier logs are read: of Linux 6, of Linux 5, which has the states
/// on lines of their own, without them, and as loaders print them.
#[test]
fn verifier_logs() {
    let expected = one(LOG.as_bytes()).insns;
    assert_eq!(expected.len(), 6);
    let without: String =
        LOG.lines().map(|line| line.split(" ;").next().unwrap().to_owned() + "\n").collect();
    let separate: String = LOG
        .lines()
        .enumerate()
        .map(|(index, line)| match line.split_once(';') {
            Some((insn, _)) => {
                format!("; return ctx->major == 195;\n{insn}\n{index}: R1=ctx(id=0,off=0,imm=0) R10=fp0\n")
            }
            None => format!("{line}\nregs=4 stack=0 before 1: (54) w2 &= 65535\n"),
        })
        .collect();
    let quoted: String = LOG.lines().map(|line| format!("> {line}\n")).collect();
    let loader = format!(
        "libbpf: prog 'x': BPF program load failed: Invalid argument\nlibbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n{LOG}-- END PROG LOAD LOG --\n"
    );
    for log in [without, separate, quoted, loader] {
        assert_eq!(one(log.as_bytes()).insns, expected, "{log}");
    }
    assert_eq!(read(format!("{LOG}{LOG}").as_bytes()).unwrap().len(), 2);
    let cut = LOG.replace("processed", "stopped");
    let message = read(format!("{cut}{}", LOG.replace("0x2 goto", "0x1 goto")).as_bytes()).unwrap_err();
    assert!(message.to_string().contains("several programs"), "{message}");
}

/// Make sure that what is missing from a log is unknown, and the rest is not.
#[test]
fn incomplete_logs() {
    let cut = LOG.replace("4: (b7) r0 = 1                        ; R0_w=1\n5: (95) exit\n\n", "");
    let program = one(cut.as_bytes());
    assert_eq!(disasm::text(&program.insns, 4, &BTreeMap::new()), "(not shown)");
    assert!(verdicts(program.clone()).iter().all(|verdict| *verdict == Verdict::Unknown));
    let program = program.into_program(0);
    let mut decoder = Decoder::new();
    let context = Context { combination: Combination::Retval, ..Context::default() };
    let policy = decoder.policy(&[&program], &context);
    let block = Device { kind: DeviceType::Block, major: 8, minor: 0 };
    assert_eq!(decoder.verdict(policy, block, Request::Read), Verdict::Deny);
    assert!(decoder.reasons(policy).join(";").contains("not shown in the log"));
    // A map is an address, and so may be a number.
    let map = LOG.replace("2: (b7) r0 = 0   ", "2: (18) r0 = 0xffff888103b43800  ");
    assert!(
        verdicts(one(map
            .replace("3: (55)", "4: (55)")
            .replace("4: (b7)", "5: (b7)")
            .replace("5: (95)", "6: (95)")
            .as_bytes()))
        .iter()
        .all(|verdict| *verdict == Verdict::Unknown)
    );
}

/// Make sure that a program keeps its bytes on the way into an observation.
#[test]
fn programs_become_facts() {
    for stem in captures() {
        let bytes = fs::read(file(&stem, "xlated")).unwrap();
        let fact = one(&bytes).into_program(7);
        assert_eq!(fact.id, 7);
        assert_eq!(fact.xlated.known().unwrap().0, bytes);
    }
}

/// Make sure that the listing of the mailing-list post is read however it is
/// pasted.
#[test]
fn the_post_is_read_as_pasted() {
    let post = post();
    let expected = one(post.as_bytes());
    assert_eq!(expected.insns.len(), 28);
    let quoted: String = post.lines().map(|line| format!("> > {line}\n")).collect();
    let variants = [
        quoted.clone(),
        quoted.replace("> > ", ">> "),
        post.replace('\n', "\r\n"),
        post.lines().map(|line| format!("{}\n\n", line.trim())).collect(),
        format!("Hi all,\n\nthis is what we see:\n\n{post}\nAny idea?\nThanks\n"),
        format!("[root@gpu01 ~]# bpftool prog dump xlated id 4197\n{post}[root@gpu01 ~]#\n"),
        format!("\u{feff}{post}"),
        post.replace(": (", ":\u{a0}("),
    ];
    for variant in variants {
        assert_eq!(one(variant.as_bytes()).insns, expected.insns, "{variant}");
    }
    let opcodes: String = with_opcodes(&expected.insns);
    for variant in [opcodes.clone(), opcodes.replace('\n', "\n\n"), opcodes.replace('\n', "\r\n> ")] {
        assert_eq!(one(variant.as_bytes()).insns, expected.insns, "{variant}");
    }
}

fn with_opcodes(insns: &[Insn]) -> String {
    let line = |(pc, insn): (usize, Insn)| {
        let hex: Vec<String> = insn.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{pc:4}: {}\n       {}\n", disasm::text(insns, pc, &BTreeMap::new()), hex.join(" "))
    };
    disasm::walk(insns).map(line).collect()
}

/// Make sure that the lines of `bpftool prog show` above a listing are used.
#[test]
fn headers_are_picked_up() {
    let header = "4197: cgroup_device  name Slurm_Cgroup_v2  tag 1a261c8a913ff67c  gpl\n\
        \tloaded_at 2025-11-03T10:12:13+0100  uid 0\n\
        \txlated 224B  jited 147B  memlock 4096B  map_ids 3,4\n";
    let program = one(format!("{header}{}", post()).as_bytes());
    assert_eq!(program.id, Some(4197));
    assert_eq!((program.name.as_str(), program.tag.as_str()), ("Slurm_Cgroup_v2", "1a261c8a913ff67c"));
    assert!(program.gpl_compatible);
    assert_eq!(program.map_ids, [3, 4]);

    let cut: String = post().lines().skip(2).map(|line| format!("{line}\n")).collect();
    assert!(read(format!("{header}{cut}").as_bytes()).is_err());
    assert!(read(format!("{}{}", header.replace("224", "232"), post()).as_bytes()).is_err());
}

/// Make sure that two programs in one listing stay two.
#[test]
fn several_programs_in_one_listing() {
    let header = |id: u32| format!("{id}: cgroup_device  tag 1a261c8a913ff67c\n");
    let twice = format!("{}{}{}{}", header(7), post(), header(8), post());
    let ids: Vec<_> = read(twice.as_bytes()).unwrap().into_iter().map(|program| program.id).collect();
    assert_eq!(ids, [Some(7), Some(8)]);
    let command = "# bpftool prog dump xlated id ";
    let asked = format!("{}{}{command}8\n{}{command}9\n{}", header(8), header(9), post(), post());
    let programs = read(asked.as_bytes()).unwrap();
    assert_eq!(programs.iter().map(|program| program.id).collect::<Vec<_>>(), [Some(8), Some(9)]);
}

/// Make sure that a damaged listing is refused, naming the line.
#[test]
fn damaged_listings_are_refused() {
    let post = post();
    let lines: Vec<&str> = post.lines().collect();
    let edited = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        edit(&mut lines);
        read(lines.join("\n").as_bytes()).unwrap_err().to_string()
    };
    let cases = [
        (edited(&|lines| drop(lines.remove(5))), "line 6: instruction 6 where 5"),
        (edited(&|lines| lines.insert(5, lines[4].clone())), "line 6: instruction 4 where 5"),
        (
            edited(&|lines| lines[6] = lines[6].replace("!=", "<>")),
            "line 7: `(55) if r2 <> 0x2 goto pc+4` is not",
        ),
        (
            edited(&|lines| lines[6] = lines[6].replace(" goto pc+4", "\n goto pc+4")),
            "line 7: `(55) if r2 != 0x2`",
        ),
        (edited(&|lines| lines[6] = lines[6].replace("(55) ", "")), "line 7: `6: if r2"),
        (
            edited(&|lines| lines[6] = lines[6].replace("(55)", "(15)")),
            "line 7: `(15) if r2 != 0x2 goto pc+4` is not",
        ),
        (edited(&|lines| lines.insert(9, "snip".to_owned())), "line 10: `snip` is not an instruction"),
        (edited(&|lines| lines.truncate(27)), "does not end with exit"),
        (
            edited(&|lines| lines.insert(7, "  15 02 04 00 02 00 00 00".to_owned())),
            "opcode bytes `(15) if r2 == 0x2",
        ),
        (
            edited(&|lines| lines.insert(0, "  55 02 04 00 03 00 00 00".to_owned())),
            "line 1: `opcode bytes` is not below",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

/// Make sure that what is no program says why and names the fix.
#[test]
fn what_is_no_program_says_why() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (&[0; 224], "CAP_SYSLOG"),
        (&[0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0], "8-byte"),
        (&[0xb7, 0, 0, 0, 1, 0, 0, 0], "does not end with exit or a jump but with `(b7) r0 = 1` at 0"),
        (&[0x18, 0, 0, 0, 1, 0, 0, 0], "64-bit load at 0"),
        (b"\x7fELF\x02\x01\x01\0\0", "ELF"),
        (b"Hello", "bpftool prog dump xlated"),
        (b"Error: can't get prog info: Operation not permitted", "line 1: bpftool saved an error"),
        (b"{\"error\":\"can't open object by id: No such file\"}", "No such file"),
        (b"{\"schema\":\"gpumap.observation/1\"}", "--from"),
        (b"7: cgroup_skb  tag 1a261c8a913ff67c\n 0: (95) exit", "cgroup_skb"),
    ];
    for (content, expected) in cases {
        let message = read(content).unwrap_err().to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
    assert!(read(&vec![b' '; (16 << 20) + 1]).unwrap_err().to_string().contains("16777216"));
    let long: Vec<u8> = Insn { code: 0x95, ..Insn::default() }.bytes().repeat(1_000_001);
    assert!(read(&long).unwrap_err().to_string().contains("1000000 instructions"));
}

/// Make sure that bpftool's JSON is the same program as its raw bytes, bare
/// and wrapped, with opcodes and without.
#[test]
fn json_is_the_raw_program() {
    for stem in captures() {
        let listing = one(&fs::read(file(&stem, "txt")).unwrap());
        for opcodes in [true, false] {
            let bare = bpftool_json(&listing, opcodes);
            let read = one(bare.to_string().as_bytes());
            match opcodes {
                true => assert_eq!(read, listing, "{}", stem.display()),
                false => assert!(is_listed_as(&read.insns, &listing.insns), "{}", stem.display()),
            }
            let wrapped = serde_json::json!([{
                "id": 12, "type": "cgroup_device", "name": "sd_devices", "tag": "1a261c8a913ff67c",
                "gpl_compatible": true, "insns": bare,
            }]);
            let program = one(serde_json::to_string_pretty(&wrapped).unwrap().as_bytes());
            assert_eq!((program.id, program.name.as_str()), (Some(12), "sd_devices"));
            assert_eq!(program.insns, read.insns);
        }
    }
}

/// What `bpftool -j prog dump xlated id N [opcodes]` prints.
fn bpftool_json(program: &SavedProgram, opcodes: bool) -> serde_json::Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("0x{byte:02x}")).collect::<Vec<_>>();
    let element = |(pc, insn): (usize, Insn)| {
        let mut element = serde_json::json!({ "disasm": disasm::text(&program.insns, pc, &program.calls) });
        let mut bytes = insn.bytes().to_vec();
        if insn.code == 0x18 {
            bytes.extend(program.insns[pc + 1].bytes());
        }
        if opcodes {
            element["opcodes"] = serde_json::json!({
                "code": format!("{:#04x}", insn.code), "src_reg": format!("{:#x}", insn.src),
                "dst_reg": format!("{:#x}", insn.dst), "off": hex(&bytes[2..4]), "imm": hex(&bytes[4..]),
            });
        }
        element
    };
    disasm::walk(&program.insns).map(element).collect()
}

/// Make sure that edited JSON is noticed: the bytes count, and the text of another
/// instruction is an error.
#[test]
fn contradictory_json_is_noticed() {
    let program = one(post().as_bytes());
    let json = bpftool_json(&program, true).to_string();
    let edited = json.replacen("if r2 != 0x2", "if r2 != 0x3", 1);
    let read_so = one(edited.as_bytes());
    assert_eq!(read_so.insns, program.insns);
    assert!(read_so.note.unwrap().contains("JSON element 7: the text says"));
    let message = read(json.replacen("(55) if r2", "(15) if r2", 1).as_bytes()).unwrap_err().to_string();
    assert!(message.contains("JSON element 7: the text says"), "{message}");
}

/// Make sure that map contents of captured programs are read whole.
#[test]
fn captured_maps_are_read() {
    let stem = root().join("libvirt/9.0.0-lvgpu-libvirt");
    let maps = maps(&fs::read_to_string(file(&stem, "json")).unwrap()).unwrap();
    let [map] = maps.as_slice() else { panic!("{maps:?}") };
    assert_eq!((map.id, &map.kind, map.key_size, map.value_size), (343, &MapType::Hash, 8, 4));
    let entries = map.entries.known().unwrap();
    assert_eq!(entries[0].key.0, [0xff, 0, 0, 0, 0xc3, 0, 0, 0]);
    assert_eq!(entries[0].value.0, [2, 0, 6, 0]);
}

/// Make sure that every shape of bpftool's map dump is understood, and that
/// contradictions are refused.
#[test]
fn shapes_of_map_dumps() {
    let show = r#"{"id":9,"type":"hash","name":"m","flags":1,"bytes_key":1,"bytes_value":2,"max_entries":4,"frozen":1}"#;
    let map = |dump: &str| {
        maps(&format!(r#"[{{"show":{show},"dump":{dump}}}]"#)).map(|maps| maps[0].entries.clone())
    };
    let value = |dump: &str| map(dump).unwrap().known().unwrap()[0].value.0.clone();

    assert_eq!(map("[]").unwrap(), Answer::Known(vec![]));
    assert_eq!(
        value(r#"[{"key":["0x01"],"value":["0x02","0x03"],"formatted":{"key":1,"value":770}}]"#),
        [2, 3]
    );
    let per_cpu = r#"[{"key":["0x01"],"values":[{"cpu":0,"value":["0x02","0x03"]},{"cpu":1,"value":["0x04","0x05"]}]}]"#;
    assert_eq!(value(per_cpu), [2, 3, 0, 0, 0, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0]);

    let vanished = map(r#"[{"key":["0x01"],"value":{"error":"No such file or directory"}}]"#).unwrap();
    assert!(vanished.missing().unwrap().contains("vanished"));
    let twice = r#"[{"key":["0x01"],"value":["0x02","0x03"]},{"key":["0x01"],"value":["0x02","0x03"]}]"#;
    assert!(map(twice).unwrap().missing().unwrap().contains("twice"));
    assert!(map(r#"{"error":"denied"}"#).unwrap().missing().unwrap().contains("denied"));

    for (dump, expected) in [
        (r#"[{"key":["0x01","0x02"],"value":["0x02","0x03"]}]"#, "a key of 2 bytes, but `show` says 1"),
        (r#"[{"key":["0x01"],"value":["0x02"]}]"#, "a value of 1 bytes, but `show` says 2"),
        (r#"[{"key":["0x01"]}]"#, "`value` or `values`"),
        (r#"[{"key":["01"],"value":["0x02","0x03"]}]"#, "not the JSON"),
        (r#"[{"key":["0x01"],"values":[{"cpu":1,"value":["0x02","0x03"]}]}]"#, "CPU 1"),
    ] {
        let message = map(dump).unwrap_err().to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

/// One program under attack: some of its bytes replaced.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let names =
        ["slurm/22.05.8-job_1.txt", "libvirt/9.0.0-lvgpu-libvirt.txt", "libvirt/9.0.0-lvgpu-libvirt.xlated"];
    let original = prop::sample::select(names.to_vec()).prop_map(|name| fs::read(root().join(name)).unwrap());
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    (original, edits).prop_map(|(mut bytes, edits)| {
        for (index, byte) in edits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..Default::default() })]

    /// Make sure that no bytes make reading panic.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    /// Make sure that no text makes reading panic, and that an error message
    /// never carries control characters to a terminal.
    #[test]
    fn any_text_is_survived(text in "(([0-9]{1,3}: )?[\\x01-\\x7f]{0,30}\n){0,5}") {
        let _ = maps(&text);
        if let Err(error) = read(text.as_bytes()) {
            prop_assert!(!error.to_string().contains(char::is_control));
        }
    }

    /// Make sure that a damaged file is an error or a program that prints.
    #[test]
    fn damaged_files_are_survived(bytes in damaged()) {
        for program in read(&bytes).unwrap_or_default() {
            for (pc, _) in disasm::walk(&program.insns) {
                disasm::text(&program.insns, pc, &program.calls);
            }
        }
    }
}

/// Make sure that reading stays quick on the largest files that are accepted.
#[test]
fn large_files_are_read_in_time() {
    let start = std::time::Instant::now();
    let lines = (0..50_000).map(|pc| format!("{pc}: (05) goto pc+0\n       05 00 00 00 00 00 00 00\n"));
    assert_eq!(one(lines.collect::<String>().as_bytes()).insns.len(), 50_000);
    let elements = vec![r#"{"disasm":"(05) goto pc+0"}"#; 50_000].join(",");
    assert_eq!(one(format!("[{elements}]").as_bytes()).insns.len(), 50_000);
    for hostile in
        ["{},", "{\"error\":\"\"},", "[[],", "[{\"insns\":", "0: (85) call #", "> > >", "7: a tag "]
    {
        let _ = read(format!("[{{{}", hostile.repeat((4 << 20) / hostile.len())).as_bytes());
        let _ = maps(&format!("[{}", hostile.repeat((4 << 20) / hostile.len())));
        let _ = read(hostile.repeat((4 << 20) / hostile.len()).as_bytes());
    }
    let _ = maps(&format!("[{{\"show\":{{}},\"dump\":[{}", "[],".repeat(1 << 20)));
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
