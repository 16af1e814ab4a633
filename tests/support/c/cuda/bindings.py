# Calls the driver through NVIDIA's Python bindings (cuda-bindings on PyPI), as its first
# argument says how often, once a line has come.
import sys

from cuda.bindings import driver


def check(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) > 1 else None


times = int(sys.argv[1])
check(driver.cuInit(0))
print("stopped", flush=True)
sys.stdin.readline()
context = check(driver.cuDevicePrimaryCtxRetain(1))
check(driver.cuCtxSetCurrent(context))
stream = check(driver.cuStreamCreate(0))
function = driver.CUfunction(8)
for _ in range(times):
    check(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
kept = check(driver.cuMemAlloc(4096))
check(driver.cuMemFree(check(driver.cuMemAlloc(1024))))
check(driver.cuMemcpyHtoDAsync(kept, bytearray(512), 512, stream))
check(driver.cuMemsetD8(kept, 1, 256))
check(driver.cuStreamSynchronize(stream))
check(driver.cuCtxSynchronize())
# Refused: no grid.
assert int(driver.cuLaunchKernel(function, 0, 0, 0, 1, 1, 1, 0, stream, 0, 0)[0]) == 1
