//! `kron man`: manual pages, made from the same definitions as `--help`.

use std::io::Write;

use clap::{Command, CommandFactory as _};
use kron_core::Finding;

use crate::args::{Cli, ManArgs};
use crate::failure::{Exit, Failure};

pub(crate) fn run(args: &ManArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    if let Some(dir) = &args.dir {
        let refused = |error: std::io::Error| {
            Failure::Read(kron_config::files::ReadError::Io { path: dir.clone(), source: error })
        };
        std::fs::create_dir_all(dir).map_err(refused)?;
        clap_mangen::generate_to(root, dir).map_err(refused)?;
        return Ok(Exit::Ok);
    }
    let page = match &args.command {
        None => root,
        Some(name) => find(&root, name)?,
    };
    clap_mangen::Man::new(page).render(out)?;
    Ok(Exit::Ok)
}

fn find(root: &Command, name: &str) -> Result<Command, Failure> {
    root.find_subcommand(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        Failure::argument("COMMAND")(
            Finding::configuration(0..0, format!("`{name}` is not a command")).nearest(
                name,
                names.iter().copied(),
                format!("expected one of {}", names.join(", ")),
            ),
        )
    })
}
