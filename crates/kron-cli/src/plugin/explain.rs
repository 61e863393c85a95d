//! `kubectl kron explain`: one decision about a KronJob, step by step.

use std::io::{self, Write};

use super::kubectl::Kubectl;
use super::{kronjobs, period};
use crate::args::PluginExplainArgs;
use crate::clock;
use crate::command::explain::{Subject, explain};
use crate::failure::{Exit, Failure};

pub(crate) fn run(
    args: &PluginExplainArgs,
    kubectl: &Kubectl<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let at = period::time("--period", args.period.as_deref())?;
    let kronjob = kronjobs::fetch_one(kubectl, &args.name)?;
    let timing = match &kronjob.timing {
        Ok(timing) => timing,
        Err(faults) => {
            return Err(Failure::InvalidKronJob {
                identity: kronjob.identity.clone(),
                faults: faults.iter().map(ToString::to_string).collect(),
            });
        }
    };
    for remark in kronjob.remarks(clock::now()) {
        let _ = writeln!(io::stderr(), "note: {remark}");
    }
    let generation = kronjob.metadata.generation;
    let origin = Some(format!("KronJob {}, generation {generation}", kronjob.identity));
    explain(&Subject { timing, origin, action: None }, at, ("--period", args.format), out)
}
