//! Sabotage that these cases must notice: one canary, one case that fails because of it.

use kron_canary::Canary;
use kron_canary::trial::{require_noticed, require_whole};

use crate::runner::{Case, NOTHING, ROOT};

const SUITE: &str = "-p kron-exec --test supervision";

pub(crate) const CASES: &[Case] = &[
    ("canaries::privileges_that_are_kept_are_noticed", ROOT, privileges_kept),
    ("canaries::every_canary_has_its_test", NOTHING, whole),
];

fn privileges_kept() {
    require_noticed(SUITE, Canary::PrivilegesKept);
}

fn whole() {
    require_whole(SUITE, &[Canary::PrivilegesKept]);
}
