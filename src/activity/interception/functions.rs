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

/// Where a call says how many bytes of a device it asks for: `enum bytes` of
/// `bpf/interception.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    None = 0,
    InArgument = 1,
    WidthAndHeight = 2,
    Array = 3,
    Array3d = 4,
    Mipmaps = 5,
}

/// The cookie of a driver's function, by its number: the number, and where it says how many
/// bytes of a device are allocated.
pub(super) fn driver_cookie(number: u32) -> u64 {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let bytes = match place.and_then(|place| FUNCTIONS.get(place)).copied() {
        Some("cuMemAllocPitch_v2") => Bytes::WidthAndHeight,
        Some("cuArrayCreate_v2") => Bytes::Array,
        Some("cuArray3DCreate_v2") => Bytes::Array3d,
        Some("cuMipmappedArrayCreate") => Bytes::Mipmaps,
        Some("cuMemAllocHost_v2") | None => Bytes::None,
        Some(name) if name.starts_with("cuMemAlloc") || name == "cuMemCreate" => Bytes::InArgument,
        Some(_) => Bytes::None,
    };
    u64::from(number) | (bytes as u64) << 8
}
