//! The driver's interface of CUDA: the exported functions of `libcuda.so.1`.
//! The runtime's calls end in these.

use super::row::Row;
use crate::activity::cookie::CallKind::*;
use crate::activity::cookie::Cookie;
use crate::activity::cookie::Direction::{FromDevice, OnDevice, ToDevice, Unknown};
use crate::activity::cookie::MemoryKind::{Device, Host, Managed, Physical};

/// Variants for the threads' own default streams: of functions with a stream,
/// and of those without.
const PTSZ: Option<&str> = Some("_ptsz");
const PTDS: Option<&str> = Some("_ptds");

const COPY: Cookie = Cookie::new(Copy).direction(Unknown);
const TO: Cookie = COPY.direction(ToDevice);
const FROM: Cookie = COPY.direction(FromDevice);
const ON: Cookie = COPY.direction(OnDevice);
const PLANE: Cookie = Cookie::new(CopyStruct2d).direction(crate::activity::cookie::Direction::Argument);
const SPACE: Cookie = Cookie::new(CopyStruct3d).direction(crate::activity::cookie::Direction::Argument);
const PEERS: Cookie = Cookie::new(CopyStruct3d).direction(OnDevice);
const BATCH: Cookie = Cookie::new(CopyBatch).direction(Unknown);
const FILL: Cookie = Cookie::new(Fill).size(2);
const FILL_2D: Cookie = Cookie::new(Fill).size(3).times(4);
const ALLOCATE: Cookie = Cookie::new(Allocate).pointer(0).size(1).memory(Device);
const FREE: Cookie = Cookie::new(Free).pointer(0);
const CAPTURE: Cookie = Cookie::new(BeginCapture).stream(0);
const NAME: Cookie = Cookie::new(NameDevice).pointer(0).extra(1);
const CREATE: Cookie = Cookie::new(CreateContext).pointer(0);

/// The functions. Positions of arguments are those of `cuda.h`.
pub(super) const ROWS: &[Row] = &[
    (&["cuLaunchKernel", "cuLaunchCooperativeKernel"], PTSZ, Cookie::new(Launch).stream(8)),
    (&["cuLaunchKernelEx"], PTSZ, Cookie::new(LaunchConfig)),
    (&["cuGraphLaunch"], PTSZ, Cookie::new(LaunchGraph).pointer(0).stream(1)),
    (&["cuLaunchHostFunc", "cuLaunchHostFunc_v2"], PTSZ, Cookie::new(HostFunction).stream(0)),
    // Copies.
    (&["cuMemcpyHtoD_v2"], PTDS, TO.size(2).waits()),
    (&["cuMemcpyDtoH_v2"], PTDS, FROM.size(2).waits()),
    (&["cuMemcpyDtoD_v2"], PTDS, ON.size(2)),
    (&["cuMemcpy"], PTDS, COPY.size(2).waits()),
    (&["cuMemcpyHtoDAsync_v2"], PTSZ, TO.size(2).stream(3)),
    (&["cuMemcpyDtoHAsync_v2"], PTSZ, FROM.size(2).stream(3)),
    (&["cuMemcpyDtoDAsync_v2"], PTSZ, ON.size(2).stream(3)),
    (&["cuMemcpyAsync"], PTSZ, COPY.size(2).stream(3)),
    (&["cuMemcpyWithAttributesAsync"], PTSZ, COPY.size(2).stream(4)),
    (&["cuMemcpyPeer"], PTDS, ON.size(4)),
    (&["cuMemcpyPeerAsync"], PTSZ, ON.size(4).stream(5)),
    (&["cuMemcpyHtoA_v2"], PTDS, TO.size(3).waits()),
    (&["cuMemcpyAtoH_v2"], PTDS, FROM.size(3).waits()),
    (&["cuMemcpyDtoA_v2", "cuMemcpyAtoD_v2"], PTDS, ON.size(3)),
    (&["cuMemcpyAtoA_v2"], PTDS, ON.size(4)),
    (&["cuMemcpyHtoAAsync_v2"], PTSZ, TO.size(3).stream(4)),
    (&["cuMemcpyAtoHAsync_v2"], PTSZ, FROM.size(3).stream(4)),
    (&["cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2"], PTDS, PLANE.waits()),
    (&["cuMemcpy2DAsync_v2"], PTSZ, PLANE.stream(1)),
    (&["cuMemcpy3D_v2"], PTDS, SPACE.waits()),
    (&["cuMemcpy3DAsync_v2"], PTSZ, SPACE.stream(1)),
    (&["cuMemcpy3DPeer"], PTDS, PEERS),
    (&["cuMemcpy3DPeerAsync"], PTSZ, PEERS.stream(1)),
    (&["cuMemcpyBatchAsync"], PTSZ, BATCH.stream(8)),
    (&["cuMemcpyBatchAsync_v2"], PTSZ, BATCH.stream(7)),
    // Fills.
    (&["cuMemsetD8_v2"], PTDS, FILL),
    (&["cuMemsetD16_v2"], PTDS, FILL.unit(1)),
    (&["cuMemsetD32_v2"], PTDS, FILL.unit(2)),
    (&["cuMemsetD8Async"], PTSZ, FILL.stream(3)),
    (&["cuMemsetD16Async"], PTSZ, FILL.unit(1).stream(3)),
    (&["cuMemsetD32Async"], PTSZ, FILL.unit(2).stream(3)),
    (&["cuMemsetD2D8_v2"], PTDS, FILL_2D),
    (&["cuMemsetD2D16_v2"], PTDS, FILL_2D.unit(1)),
    (&["cuMemsetD2D32_v2"], PTDS, FILL_2D.unit(2)),
    (&["cuMemsetD2D8Async"], PTSZ, FILL_2D.stream(5)),
    (&["cuMemsetD2D16Async"], PTSZ, FILL_2D.unit(1).stream(5)),
    (&["cuMemsetD2D32Async"], PTSZ, FILL_2D.unit(2).stream(5)),
    // Memory.
    (&["cuMemAlloc_v2"], None, ALLOCATE),
    (&["cuMemAllocManaged"], None, ALLOCATE.memory(Managed)),
    (&["cuMemHostAlloc", "cuMemAllocHost_v2"], None, ALLOCATE.memory(Host)),
    (&["cuMemCreate"], None, ALLOCATE.memory(Physical)),
    // The pitch that the driver chose, times the height.
    (&["cuMemAllocPitch_v2"], None, ALLOCATE.size(3).extra(1)),
    (&["cuMemAllocAsync"], PTSZ, ALLOCATE.stream(2)),
    (&["cuMemAllocFromPoolAsync"], PTSZ, ALLOCATE.stream(3)),
    (&["cuMemFree_v2"], None, FREE),
    (&["cuMemFreeAsync"], PTSZ, FREE),
    (&["cuMemFreeHost"], None, FREE.memory(Host)),
    (&["cuMemRelease"], None, FREE.memory(Physical)),
    // Waiting and asking.
    (&["cuStreamSynchronize"], PTSZ, Cookie::new(WaitStream).stream(0)),
    (&["cuStreamQuery"], PTSZ, Cookie::new(QueryStream).stream(0)),
    (&["cuEventSynchronize"], None, Cookie::new(WaitEvent).pointer(0)),
    (&["cuEventQuery"], None, Cookie::new(QueryEvent).pointer(0)),
    (&["cuCtxSynchronize"], None, Cookie::new(WaitContext)),
    (&["cuCtxSynchronize_v2"], None, Cookie::new(WaitContext).extra(0)),
    (&["cuEventRecord", "cuEventRecordWithFlags"], PTSZ, Cookie::new(RecordEvent).pointer(0).stream(1)),
    (&["cuStreamWaitEvent"], PTSZ, Cookie::new(StreamWaits).stream(0).pointer(1)),
    (&["cuEventDestroy_v2"], None, Cookie::new(DestroyEvent).pointer(0)),
    (&["cuStreamCreate", "cuStreamCreateWithPriority"], None, Cookie::new(CreateStream).pointer(0)),
    (&["cuStreamDestroy_v2"], None, Cookie::new(DestroyStream).stream(0)),
    // Contexts and devices.
    (&["cuCtxSetCurrent"], None, Cookie::new(SetContext).extra(0)),
    (&["cuCtxPushCurrent_v2"], None, Cookie::new(PushContext).extra(0)),
    (&["cuCtxPopCurrent_v2"], None, Cookie::new(PopContext)),
    (&["cuCtxGetCurrent"], None, Cookie::new(GetContext).pointer(0)),
    (&["cuCtxCreate_v2"], None, CREATE.extra(2)),
    (&["cuCtxCreate_v3"], None, CREATE.extra(4)),
    (&["cuCtxCreate_v4"], None, CREATE.extra(3)),
    (&["cuCtxDestroy_v2"], None, Cookie::new(DestroyContext).extra(0)),
    (&["cuDevicePrimaryCtxRetain"], None, Cookie::new(RetainPrimary).pointer(0).extra(1)),
    (&["cuDevicePrimaryCtxRelease_v2"], None, Cookie::new(ReleasePrimary).extra(0)),
    (&["cuDevicePrimaryCtxReset_v2"], None, Cookie::new(ResetPrimary).extra(0)),
    (&["cuDeviceGetUuid"], None, NAME.unit(1)),
    (&["cuDeviceGetUuid_v2"], None, NAME.unit(2)),
    // Graphs.
    (&["cuStreamBeginCapture_v2"], PTSZ, CAPTURE),
    (&["cuStreamBeginCaptureToGraph"], PTSZ, CAPTURE.pointer(1)),
    (&["cuStreamEndCapture"], PTSZ, Cookie::new(EndCapture).stream(0).pointer(1)),
    (
        &["cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags"],
        None,
        Cookie::new(Instantiate).pointer(0).extra(1),
    ),
    (&["cuGraphInstantiateWithParams"], PTSZ, Cookie::new(Instantiate).pointer(0).extra(1)),
    (&["cuGraphDestroy", "cuGraphExecDestroy"], None, Cookie::new(DestroyGraph).pointer(0)),
    (&["cuGraphExecUpdate", "cuGraphExecUpdate_v2"], None, Cookie::new(UpdateGraph).pointer(0).extra(1)),
];
