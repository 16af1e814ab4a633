//! The functions whose calls are measured.

/// The functions, by the number that is their cookie less one: those that programs
/// call for each piece of work, and that the libraries do bookkeeping for.
pub(super) const FUNCTIONS: [&str; 29] = [
    "cuLaunchKernel",
    "cuLaunchKernel_ptsz",
    "cuLaunchKernelEx",
    "cuLaunchKernelEx_ptsz",
    "cuLaunchCooperativeKernel",
    "cuLaunchCooperativeKernel_ptsz",
    "cuGraphLaunch",
    "cuGraphLaunch_ptsz",
    "cuMemAlloc_v2",
    "cuMemAllocManaged",
    "cuMemAllocPitch_v2",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuMemCreate",
    "cuMemGetInfo_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuCtxGetDevice",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
    "cuArrayCreate_v2",
    "cuArray3DCreate_v2",
    "cuMipmappedArrayCreate",
];

/// The cookie of a driver's function, by its number: the number, and which argument says how
/// many bytes are allocated, counted from 1. How many an array takes is not counted.
pub(super) fn driver_cookie(number: u32) -> u64 {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let bytes = match place.and_then(|place| FUNCTIONS.get(place)) {
        Some(&("cuMemAllocHost_v2" | "cuMemHostAlloc" | "cuMemAllocPitch_v2")) | None => 0,
        Some(name) if name.starts_with("cuMemAlloc") || *name == "cuMemCreate" => 2,
        Some(_) => 0,
    };
    u64::from(number) | bytes << 8
}
