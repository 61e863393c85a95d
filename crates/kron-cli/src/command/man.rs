//! `kron man`: manual pages, made from the same definitions as `--help`.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use kron_config::files::ReadError;
use kron_core::Finding;

use crate::args::{Cli, ManArgs, PluginCli};
use crate::failure::{Exit, Failure};

pub(crate) fn run(args: &ManArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    // The plugin of kubectl is this program under another name.
    let mut plugin = PluginCli::command().disable_help_subcommand(true);
    plugin.build();
    if let Some(dir) = &args.dir {
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |source| Failure::Read(ReadError::Io { path, source })
        };
        std::fs::create_dir_all(dir).map_err(refused(dir))?;
        let mut commands = vec![&root, &plugin];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            let name = command.get_display_name().unwrap_or(command.get_name());
            let path = dir.join(format!("{name}.1"));
            std::fs::write(&path, page(command.clone())?).map_err(refused(&path))?;
        }
        return Ok(Exit::Ok);
    }
    let (mut command, names) = match args.command.split_first() {
        Some((first, rest)) if first == plugin.get_name() => (plugin, rest),
        _ => (root, args.command.as_slice()),
    };
    for name in names {
        command = find(&command, name)?;
    }
    out.write_all(page(command)?.as_bytes())?;
    Ok(Exit::Ok)
}

/// A command's page. What its help ends with is set as written: it has examples.
fn page(command: Command) -> Result<String, Failure> {
    const EXTRA: &str = ".SH EXTRA\n";
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    // A synopsis with many alternatives is one long word, which cannot be spread over a line.
    let text = String::from_utf8_lossy(&text)
        .replace(".SH SYNOPSIS\n", ".SH SYNOPSIS\n.ad l\n")
        .replace(".SH DESCRIPTION\n", ".ad b\n.SH DESCRIPTION\n");
    let Some((before, extra)) = text.split_once(EXTRA) else { return Ok(text) };
    let end = extra.find(".SH ").unwrap_or(extra.len());
    let (extra, after) = extra.split_at(end);
    Ok(format!("{before}.SH NOTES\n.nf\n{extra}.fi\n{after}"))
}

fn find(parent: &Command, name: &str) -> Result<Command, Failure> {
    parent.find_subcommand(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = parent.get_subcommands().map(Command::get_name).collect();
        Failure::argument("COMMAND")(
            Finding::configuration(0..0, format!("`{name}` is not a command")).nearest(
                name,
                names.iter().copied(),
                format!("expected one of {}", names.join(", ")),
            ),
        )
    })
}
