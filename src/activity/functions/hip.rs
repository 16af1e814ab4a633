//! The runtime of HIP: the exported functions of `libamdhip64.so`, the lowest
//! layer that it exports.

use super::row::Row;
use crate::activity::cookie::CallKind::*;
use crate::activity::cookie::Cookie;
use crate::activity::cookie::Direction::{Argument, FromDevice, OnDevice, ToDevice};
use crate::activity::cookie::MemoryKind::{Device, Host, Managed, Physical};

/// Variants for the threads' own default streams.
const SPT: Option<&str> = Some("_spt");

const COPY: Cookie = Cookie::new(Copy).hip();
/// The kind of a copy is an argument.
const KIND: Cookie = COPY.direction(Argument);
const FILL: Cookie = Cookie::new(Fill).size(2).hip();
const ALLOCATE: Cookie = Cookie::new(Allocate).pointer(0).size(1).memory(Device).hip();
const FREE: Cookie = Cookie::new(Free).pointer(0).hip();
const LAUNCH: Cookie = Cookie::new(Launch).hip();
const STREAM: Cookie = Cookie::new(CreateStream).pointer(0).hip();
const GRAPH: Cookie = Cookie::new(Instantiate).pointer(0).extra(1).hip();

/// The functions. Positions of arguments are those in registers: a `dim3` takes
/// two.
pub(super) const ROWS: &[Row] = &[
    (&["hipLaunchKernel", "hipLaunchCooperativeKernel"], SPT, LAUNCH.stream(7)),
    (&["hipExtLaunchKernel"], None, LAUNCH.stream(7)),
    (
        &["hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchCooperativeKernel"],
        None,
        LAUNCH.stream(8),
    ),
    (&["hipDrvLaunchKernelEx", "hipLaunchKernelExC"], None, Cookie::new(LaunchConfig).hip()),
    (&["hipGraphLaunch"], SPT, Cookie::new(LaunchGraph).pointer(0).stream(1).hip()),
    (&["hipLaunchHostFunc"], SPT, Cookie::new(HostFunction).stream(0).hip()),
    // Copies and fills.
    (&["hipMemcpy"], SPT, KIND.size(2).extra(3).waits()),
    (&["hipMemcpyAsync"], SPT, KIND.size(2).extra(3).stream(4)),
    (&["hipMemcpyWithStream"], None, KIND.size(2).extra(3).stream(4).waits()),
    (&["hipMemcpyHtoD"], None, COPY.direction(ToDevice).size(2).waits()),
    (&["hipMemcpyDtoH"], None, COPY.direction(FromDevice).size(2).waits()),
    (&["hipMemcpyDtoD"], None, COPY.direction(OnDevice).size(2)),
    (&["hipMemcpyHtoDAsync"], None, COPY.direction(ToDevice).size(2).stream(3)),
    (&["hipMemcpyDtoHAsync"], None, COPY.direction(FromDevice).size(2).stream(3)),
    (&["hipMemcpyDtoDAsync"], None, COPY.direction(OnDevice).size(2).stream(3)),
    (&["hipMemcpyPeer"], None, COPY.direction(OnDevice).size(4)),
    (&["hipMemcpyPeerAsync"], None, COPY.direction(OnDevice).size(4).stream(5)),
    (&["hipMemcpy2D"], SPT, KIND.size(4).times(5).extra(6).waits()),
    (&["hipMemcpy2DAsync"], SPT, KIND.size(4).times(5).extra(6).stream(7)),
    (&["hipMemset"], SPT, FILL),
    (&["hipMemsetAsync"], SPT, FILL.stream(3)),
    (&["hipMemsetD8"], None, FILL),
    (&["hipMemsetD16"], None, FILL.unit(1)),
    (&["hipMemsetD32"], None, FILL.unit(2)),
    (&["hipMemsetD8Async"], None, FILL.stream(3)),
    (&["hipMemsetD16Async"], None, FILL.unit(1).stream(3)),
    (&["hipMemsetD32Async"], None, FILL.unit(2).stream(3)),
    // Memory.
    (&["hipMalloc", "hipExtMallocWithFlags"], None, ALLOCATE),
    (&["hipMallocManaged"], None, ALLOCATE.memory(Managed)),
    (&["hipHostMalloc", "hipHostAlloc", "hipMallocHost", "hipMemAllocHost"], None, ALLOCATE.memory(Host)),
    (&["hipMemCreate"], None, ALLOCATE.memory(Physical)),
    (&["hipMallocPitch", "hipMemAllocPitch"], None, ALLOCATE.size(3).extra(1)),
    (&["hipMallocAsync"], None, ALLOCATE.stream(2)),
    (&["hipMallocFromPoolAsync"], None, ALLOCATE.stream(3)),
    (&["hipFree", "hipFreeAsync"], None, FREE),
    (&["hipHostFree", "hipFreeHost"], None, FREE.memory(Host)),
    (&["hipMemRelease"], None, FREE.memory(Physical)),
    // Waiting and asking.
    (&["hipStreamSynchronize"], SPT, Cookie::new(WaitStream).stream(0).hip()),
    (&["hipStreamQuery"], SPT, Cookie::new(QueryStream).stream(0).hip()),
    (&["hipEventSynchronize"], None, Cookie::new(WaitEvent).pointer(0).hip()),
    (&["hipEventQuery"], None, Cookie::new(QueryEvent).pointer(0).hip()),
    (&["hipDeviceSynchronize"], None, Cookie::new(WaitContext).hip()),
    (&["hipEventRecord"], SPT, Cookie::new(RecordEvent).pointer(0).stream(1).hip()),
    (&["hipEventRecordWithFlags"], None, Cookie::new(RecordEvent).pointer(0).stream(1).hip()),
    (&["hipStreamWaitEvent"], SPT, Cookie::new(StreamWaits).stream(0).pointer(1).hip()),
    (&["hipEventDestroy"], None, Cookie::new(DestroyEvent).pointer(0).hip()),
    (&["hipStreamCreate", "hipStreamCreateWithFlags", "hipStreamCreateWithPriority"], None, STREAM),
    (&["hipStreamDestroy"], None, Cookie::new(DestroyStream).stream(0).hip()),
    // Devices.
    (&["hipSetDevice"], None, Cookie::new(SetDevice).extra(0).hip()),
    (&["hipGetDevice"], None, Cookie::new(GetDevice).pointer(0).hip()),
    (&["hipDeviceGetUuid"], None, Cookie::new(NameDevice).pointer(0).extra(1).unit(1).hip()),
    // Graphs.
    (&["hipStreamBeginCapture"], SPT, Cookie::new(BeginCapture).stream(0).hip()),
    (&["hipStreamEndCapture"], SPT, Cookie::new(EndCapture).stream(0).pointer(1).hip()),
    (&["hipGraphInstantiate", "hipGraphInstantiateWithFlags", "hipGraphInstantiateWithParams"], None, GRAPH),
    (&["hipGraphDestroy", "hipGraphExecDestroy"], None, Cookie::new(DestroyGraph).pointer(0).hip()),
    (&["hipGraphExecUpdate"], None, Cookie::new(UpdateGraph).pointer(0).extra(1).hip()),
];
