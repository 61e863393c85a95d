//! `kubectl kron`: this program under the name `kubectl-kron`, which is how kubectl finds a plugin.
//!
//! It looks at KronJobs through [`kubectl`], computes with the same engine as the operator, and
//! shows what `kron` shows of the jobs of a machine. It deliberately has no client of its own, and it
//! changes nothing: what [`migrate`] makes of CronJobs is for somebody to apply, and the Job that
//! [`run`](mod@run) writes for somebody to create.

mod complete;
mod explain;
mod forecast;
mod kronjobs;
mod kubectl;
mod migrate;
mod next;
mod period;
mod run;
mod why;
mod yaml;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

use self::kubectl::Kubectl;
pub(crate) use self::kubectl::KubectlError;
use crate::args::{PluginCli, PluginCommand};
use crate::failure::{Exit, Failure};

/// What kubectl looks for on the PATH; some packagers cannot have the hyphen.
const NAMES: [&str; 2] = ["kubectl-kron", "kubectl_kron"];
/// What kubectl looks for to complete what somebody types behind `kubectl kron`.
const COMPLETING_NAME: &str = "kubectl_complete-kron";

/// Whether somebody calls this program by the plugin's name.
pub(crate) fn is_called(program: Option<&OsStr>) -> bool {
    name(program).is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// Whether kubectl calls this program to complete words.
pub(crate) fn is_asked_to_complete(program: Option<&OsStr>) -> bool {
    name(program).is_some_and(|name| name == COMPLETING_NAME)
}

fn name(program: Option<&OsStr>) -> Option<&OsStr> {
    program.and_then(|program| Path::new(program).file_name())
}

/// Completes the last of the words behind `kubectl kron`.
pub(crate) fn complete(words: &[OsString], out: &mut dyn Write) -> Result<Exit, Failure> {
    complete::run(words, out)
}

pub(crate) fn run(cli: &PluginCli, out: &mut dyn Write) -> Result<Exit, Failure> {
    let kubectl = Kubectl::new(&cli.cluster);
    match &cli.command {
        PluginCommand::Next(args) => next::run(args, &kubectl, out),
        PluginCommand::Explain(args) => explain::run(args, &kubectl, out),
        PluginCommand::Why(args) => why::run(args, &kubectl, out),
        PluginCommand::Forecast(args) => forecast::run(args, &kubectl, out),
        PluginCommand::Run(args) => run::run(args, &kubectl, out),
        PluginCommand::Migrate(args) => migrate::run(args, &kubectl, out),
    }
}

/// Writes a manifest as JSON for people.
fn write_pretty(out: &mut dyn Write, value: &impl serde::Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_whatever_the_path() {
        for (program, expected) in [
            ("kubectl-kron", true),
            ("/usr/bin/kubectl-kron", true),
            ("./kubectl_kron", true),
            ("kron", false),
            ("/opt/kubectl-kron/kron", false),
            ("kubectl-kronos", false),
            ("", false),
        ] {
            assert_eq!(is_called(Some(OsStr::new(program))), expected, "{program}");
        }
        assert!(!is_called(None));
        let completing = Some(OsStr::new("/usr/bin/kubectl_complete-kron"));
        assert!(is_asked_to_complete(completing) && !is_called(completing));
        assert!(!is_asked_to_complete(Some(OsStr::new("kubectl-kron"))));
    }
}
