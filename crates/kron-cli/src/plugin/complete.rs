//! What kubectl asks when somebody presses the tab key behind `kubectl kron`: this program under the
//! name `kubectl_complete-kron`.
//!
//! It is given the words behind `kron`, the last of which is to be completed, and answers as kubectl
//! does itself: one candidate a line, a tab before what it means, and in the end what the shell is to
//! do when there is none. Commands and flags are those of the definitions of `--help`; names are
//! asked for in the cluster. Whatever goes wrong, somebody is typing: there is no error, only nothing.

use std::ffi::OsString;
use std::io::Write;

use clap::{Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _};

use super::kubectl::Kubectl;
use super::{kronjobs, migrate};
use crate::args::{ClusterArgs, PluginCli};
use crate::failure::{Exit, Failure};

/// Candidates are all there is.
const NOTHING_ELSE: &str = ":4";
/// The names of files will do.
const FILES: &str = ":0";

pub(crate) fn run(words: &[OsString], out: &mut dyn Write) -> Result<Exit, Failure> {
    let words: Vec<String> = words.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let mut root = PluginCli::command();
    root.build();
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", &[][..]),
    };
    let typed = Typed::of(&root, before);
    let (candidates, directive) = match typed.wanted(last) {
        Wanted::Files => (Vec::new(), FILES),
        Wanted::Words(candidates) => (candidates, NOTHING_ELSE),
        Wanted::Names(kind) => {
            let cluster = cluster(before);
            let mut names = Kubectl::new(&cluster).names(kind);
            names.retain(|name| !typed.names.contains(&name.as_str()));
            (names, NOTHING_ELSE)
        }
    };
    for candidate in candidates.iter().filter(|candidate| candidate.starts_with(last)) {
        writeln!(out, "{candidate}")?;
    }
    writeln!(out, "{directive}")?;
    Ok(Exit::Ok)
}

/// The words before the one that is to be completed.
struct Typed<'a> {
    command: &'a Command,
    /// Those that are neither flags nor the command.
    names: Vec<&'a str>,
    /// The flag that the next word is the value of.
    flag: Option<&'a Arg>,
    /// Whether what looks like a flag is none any more.
    only_names: bool,
}

/// What the next word may be.
enum Wanted {
    /// One of these, each with what it means behind a tab.
    Words(Vec<String>),
    /// The name of an object of this kind.
    Names(&'static str),
    /// The name of a file.
    Files,
}

impl<'a> Typed<'a> {
    fn of(root: &'a Command, words: &'a [String]) -> Typed<'a> {
        let mut typed = Typed { command: root, names: Vec::new(), flag: None, only_names: false };
        for word in words {
            if typed.flag.take().is_some() {
                continue;
            }
            match word.as_str() {
                "--" => typed.only_names = true,
                flag if flag.starts_with('-') && !typed.only_names => {
                    typed.flag = typed.flag_of(flag).filter(|arg| takes_value(arg));
                }
                name => match typed.command.find_subcommand(name) {
                    Some(command) if typed.names.is_empty() => typed.command = command,
                    _ => typed.names.push(name),
                },
            }
        }
        typed
    }

    /// The flag that a word names and whose value is not in the same word.
    fn flag_of(&self, word: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| match word.strip_prefix("--") {
            Some(long) => {
                arg.get_long() == Some(long)
                    || arg.get_all_aliases().unwrap_or_default().contains(&long)
            }
            None => arg.get_short().is_some_and(|short| word == format!("-{short}")),
        })
    }

    fn wanted(&self, last: &str) -> Wanted {
        if let Some(flag) = self.flag {
            return match flag.get_id().as_str() {
                "files" | "kubeconfig" | "output_dir" => Wanted::Files,
                "namespace" => Wanted::Names("namespaces"),
                _ => Wanted::Words(
                    flag.get_possible_values()
                        .iter()
                        .map(|value| with_help(value.get_name(), value.get_help()))
                        .collect(),
                ),
            };
        }
        if last.starts_with('-') && !self.only_names {
            let flags = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
            let flag =
                |arg: &Arg| Some(with_help(&format!("--{}", arg.get_long()?), arg.get_help()));
            return Wanted::Words(flags.filter_map(flag).collect());
        }
        if self.command.has_subcommands() {
            // Behind a word that is no command there is nothing.
            let commands = self.command.get_subcommands().filter(|_| self.names.is_empty());
            let command = |it: &Command| with_help(it.get_name(), it.get_about());
            return Wanted::Words(commands.map(command).collect());
        }
        let takes = match self.command.get_positionals().next() {
            Some(names) if names.get_id() == "names" => true,
            Some(_) => self.names.is_empty(),
            None => false,
        };
        match (takes, self.command.get_name()) {
            (false, _) => Wanted::Words(Vec::new()),
            (true, "migrate") => Wanted::Names(migrate::KIND),
            (true, _) => Wanted::Names(kronjobs::KIND),
        }
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// A candidate, and the first line of what it means.
fn with_help(word: &str, help: Option<&clap::builder::StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    match help.lines().next() {
        Some(line) if !line.is_empty() => format!("{word}\t{line}"),
        _ => word.to_owned(),
    }
}

/// Which cluster the words say, as far as they can be understood already.
fn cluster(words: &[String]) -> ClusterArgs {
    let typed = std::iter::once("kubectl-kron").chain(words.iter().map(String::as_str));
    let matches = PluginCli::command().ignore_errors(true).try_get_matches_from(typed);
    let read = matches.and_then(|matches| ClusterArgs::from_arg_matches(&matches));
    read.unwrap_or_default()
}
