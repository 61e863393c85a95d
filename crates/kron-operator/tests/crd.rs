//! The definition of the resource in the manifests is the one that the types give.

use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "the file is what is tested")]
fn the_manifests_have_the_present_definition() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let fresh = kron_operator::crd_yaml().unwrap();
    for copy in ["manifests/crd.yaml", "helm/kron-operator/files/crd.yaml"] {
        let text = std::fs::read_to_string(deploy.join(copy)).unwrap();
        // The first line says where it comes from.
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.starts_with("# Written by `deploy/generate`"), "{copy}: {first}");
        let same = rest == fresh;
        assert!(same, "deploy/{copy} is stale: run `deploy/generate`");
    }
}
