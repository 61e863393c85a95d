//! `kubectl kron forecast`: the load of all KronJobs over time.

use std::io::{self, Write};

use kron_core::{Load, Seconds, Zone};

use super::kronjobs;
use super::kubectl::{Kubectl, Which};
use crate::args::PluginForecastArgs;
use crate::command::forecast::show;
use crate::failure::{Exit, Failure};
use crate::jobs;

pub(crate) fn run(
    args: &PluginForecastArgs,
    kubectl: &Kubectl<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let horizon = jobs::horizon(&args.horizon, Seconds::new(86_400))?;
    let zone = Zone::named(&args.timezone).map_err(Failure::argument("--timezone"))?;
    let kronjobs = kronjobs::fetch(kubectl, Which::Chosen(&args.choice))?;
    let mut loads = Vec::new();
    for kronjob in &kronjobs {
        match &kronjob.timing {
            Ok(timing) => loads.push(Load { timing, duration: None }),
            Err(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                let (identity, faults) = (&kronjob.identity, faults.join("; "));
                let _ = writeln!(io::stderr(), "note: left out: {identity} is invalid: {faults}");
            }
        }
    }
    show(out, &loads, horizon, &zone, args.format)
}
