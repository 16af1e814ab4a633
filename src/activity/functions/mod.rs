//! The functions that are counted: one table for each interface.

mod cuda;
mod hip;
mod row;

use std::sync::LazyLock;

pub(super) use row::Function;
use row::functions;

/// All of them.
static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let all = cuda::ROWS.iter().chain(hip::ROWS).flat_map(functions);
    all.zip(0..).map(|(one, number)| Function { cookie: one.cookie.numbered(number), ..one }).collect()
});

/// The functions of all interfaces.
pub(super) fn all() -> &'static [Function] {
    &FUNCTIONS
}

/// The name of the function with this cookie.
pub(super) fn name_of(cookie: u64) -> Option<&'static str> {
    let place = usize::try_from(super::cookie::function(cookie)).ok()?;
    all().get(place).map(|function| function.name.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The functions that say what programs do with a GPU, by what they do. A word may
    /// have several endings in braces; `*` stands for the function and its variant
    /// `_ptsz`, `+` for the function and `_ptds`. The table is of another source than the
    /// rows: of the headers of CUDA 12.9 to 13.5.
    const LISTED: &str = "
        cuLaunch{Kernel,CooperativeKernel}* cuLaunchKernelEx* cuGraphLaunch* cuLaunchHostFunc{,_v2}*
        cuMemcpy{HtoD_v2,DtoH_v2,DtoD_v2,}+ cuMemcpy{HtoDAsync_v2,DtoHAsync_v2,DtoDAsync_v2,Async}*
        cuMemcpyPeer+ cuMemcpyPeerAsync* cuMemcpy{2D_v2,2DUnaligned_v2}+ cuMemcpy2DAsync_v2*
        cuMemcpy3D_v2+ cuMemcpy3DAsync_v2* cuMemcpy3DPeer+ cuMemcpy3DPeerAsync*
        cuMemcpyBatchAsync{,_v2}* cuMemcpyWithAttributesAsync*
        cuMemset{D8,D16,D32}_v2+ cuMemset{D8,D16,D32}Async* cuMemset{D2D8,D2D16,D2D32}_v2+
        cuMemset{D2D8,D2D16,D2D32}Async*
        cuMemAlloc_v2 cuMemAllocManaged cuMemCreate cuMemHostAlloc cuMemAllocHost_v2 cuMemAllocPitch_v2
        cuMemAllocAsync* cuMemAllocFromPoolAsync*
        cuMemFree_v2 cuMemFreeAsync* cuMemFreeHost cuMemRelease
        cuStreamSynchronize* cuStreamQuery* cuEventSynchronize cuEventQuery cuCtxSynchronize{,_v2}
        cuEventRecord* cuEventRecordWithFlags* cuStreamWaitEvent*
        cuCtxSetCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetCurrent
        cuCtxCreate{_v2,_v3,_v4} cuDevicePrimaryCtxRetain
        cuCtxDestroy_v2 cuDevicePrimaryCtxReset_v2 cuStreamDestroy_v2 cuDeviceGetUuid{,_v2}
        cuStreamBeginCapture_v2* cuStreamEndCapture* cuGraphInstantiateWithFlags
        cuGraphInstantiateWithParams*";

    /// The functions of a word of the list.
    fn listed(word: &str) -> Vec<String> {
        let (before, rest) = word.split_once('{').unwrap_or((word, "}"));
        let (endings, after) = rest.split_once('}').unwrap();
        let named = endings.split(',').map(|ending| format!("{before}{ending}{after}"));
        let both = |name: &str, suffix: &str| vec![name.to_owned(), format!("{name}{suffix}")];
        named
            .flat_map(|name| match name.strip_suffix(['*', '+']) {
                Some(plain) => both(plain, if name.ends_with('*') { "_ptsz" } else { "_ptds" }),
                None => vec![name],
            })
            .collect()
    }

    /// Make sure that none of them is forgotten.
    #[test]
    fn none_is_forgotten() {
        let names: BTreeSet<&str> = all().iter().map(|function| function.name.as_str()).collect();
        let wanted: Vec<String> = LISTED.split_whitespace().flat_map(listed).collect();
        let missing: Vec<&String> = wanted.iter().filter(|name| !names.contains(name.as_str())).collect();
        assert_eq!(missing, [""; 0]);
        assert_eq!(wanted.len(), 125);
    }

    /// Make sure that no function stands there twice.
    #[test]
    fn once() {
        let names: BTreeSet<&str> = all().iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names.len(), all().len());
        let cookie = all().iter().find(|function| function.name == "hipFree").unwrap().cookie;
        assert!(all().len() < 4096 && name_of(cookie.value(4095)) == Some("hipFree"));
        for name in ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemcpyHtoD_v2_ptds", "hipLaunchKernel_spt"] {
            assert!(names.contains(name), "{name}");
        }
    }
}
