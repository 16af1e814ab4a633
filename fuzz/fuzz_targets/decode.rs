//! Decodes any bytes as the instructions of a program. Decoding must not panic or
//! hang.

#![no_main]

use gpumap::observation::{Answer, HexBytes, Program};
use gpumap::model::{Device, DeviceType, Request};
use gpumap::policy::{Combination, Context, Decoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let xlated = Answer::Known(HexBytes(bytes.to_vec()));
    let program = Program { id: 1, xlated, ..Program::default() };
    let context = Context { maps: &[], cgroups: &[], cgroup_id: Some(1), combination: Combination::Retval };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[&program], &context);
    for request in Request::ALL {
        let device = Device { kind: DeviceType::Char, major: 195, minor: 0 };
        decoder.verdict(policy, device, request);
    }
});
