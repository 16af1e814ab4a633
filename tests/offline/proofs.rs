//! Proofs follow the same semantics as policies: the two ways to an answer
//! agree wherever the kernel's verdicts were recorded.

use std::path::Path;

use gpumap::bytecode;
use gpumap::model::{Device, DeviceType, Request, Verdict};
use gpumap::observation::{Map, Program};
use gpumap::policy::{Combination, Context, Decoder};

/// A captured program, its maps and the questions of its oracle.
type Capture = (Program, Vec<Map>, Vec<(Device, Request)>);

fn captures() -> Vec<Capture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs");
    let listings =
        walkdir::WalkDir::new(root).into_iter().map(Result::unwrap).map(walkdir::DirEntry::into_path);
    listings
        .filter(|path| path.extension().is_some_and(|extension| extension == "xlated"))
        .map(|path| {
            let listing = std::fs::read(path.with_extension("txt")).unwrap();
            let mut program = bytecode::read(&listing).unwrap().remove(0).into_program(1);
            let maps =
                bytecode::maps(&std::fs::read_to_string(path.with_extension("json")).unwrap()).unwrap();
            program.map_ids = maps.iter().map(|map| map.id).collect();
            let oracle = std::fs::read_to_string(path.with_extension("oracle.tsv")).unwrap();
            (program, maps, oracle.lines().skip(1).filter_map(question).collect())
        })
        .collect()
}

fn question(row: &str) -> Option<(Device, Request)> {
    let mut fields = row.split('\t');
    let kind = if fields.next()? == "c" { DeviceType::Char } else { DeviceType::Block };
    let (major, minor) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let request = match fields.next()? {
        "r" => Request::Read,
        "w" => Request::Write,
        "rw" => Request::ReadWrite,
        _ => Request::Mknod,
    };
    Some((Device { kind, major, minor }, request))
}

/// Make sure that a followed run ends in the verdict of the policy, names the
/// instruction that decided and ends at an exit.
#[test]
fn proofs_agree_with_policies() {
    let captures = captures();
    assert!(captures.len() > 40, "only {} captures", captures.len());
    for (program, maps, questions) in captures {
        let decoder = &mut Decoder::new();
        let context =
            Context { maps: &maps, cgroups: &[], cgroup_id: None, combination: Combination::Retval };
        let policy = decoder.policy(&[&program], &context);
        for (device, request) in questions.into_iter().step_by(7) {
            let proof = decoder.prove(&[&program], &context, device, request);
            assert_eq!(proof.verdict, decoder.verdict(policy, device, request), "{device} {request:?}");
            let followed = &proof.programs[0];
            assert_eq!(followed.returned, Some(proof.verdict == Verdict::Allow));
            assert!(followed.decided_at.is_some());
            let last = followed.steps.last().unwrap();
            assert!(["allows", "denies"].contains(&last.meaning.as_str()), "{last:?}");
        }
    }
}
