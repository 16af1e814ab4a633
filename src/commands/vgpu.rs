//! `gpumap vgpu`: what a shared region of libvgpu.so says.

use super::files;
use super::invocation::{Failure, Invocation, envelope};
use crate::cli::{Exit, VgpuArgs};
use crate::model::{ProblemCode, RegionLayout};
use crate::observation::Problem;
use crate::report::Payload;
use crate::{render, vgpu};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &VgpuArgs) -> Result<Exit, Failure> {
    let file = files::read(invocation, &args.region)?;
    let region = vgpu::read(&file);
    let mut observation = envelope::blank();
    let needs = match region.layout {
        RegionLayout::Mixed => "end the container's processes and remove the file: they make it anew",
        RegionLayout::Unknown => "name a shared region that HAMi-core or SoftMig has written",
        _ => "",
    };
    if !needs.is_empty() {
        observation.errors.push(Problem {
            code: ProblemCode::Layout,
            what: files::name(&args.region),
            why: region.why.clone().unwrap_or_default(),
            needs: needs.to_owned(),
        });
    }
    let payload = Payload { region: Some(region), ..Payload::default() };
    invocation.answer(&observation, payload, render::region)
}
