//! What a package has beside the program, made from the same definitions as `--help`: the manual
//! page and completions.
//!
//! These are commands of `krond` alone. `kron up` takes a daemon's options and never asks for them,
//! so they stand beside [`Options`] and not in it.

use std::io::{self, Write};

use clap::{Command, CommandFactory as _, Subcommand};
use clap_complete::Shell;
use krond::options::Options;

// What to write to standard output. In a `///` this would be the help of the whole program.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Shipped {
    /// Write a shell's completions to standard output
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual page to standard output
    Man,
}

impl Shipped {
    /// Everything that can be typed.
    pub(crate) fn beside_options() -> Command {
        Shipped::augment_subcommands(Options::command())
    }

    pub(crate) fn write(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Shipped::Completions { shell } => {
                // A generator panics where it cannot write, so it writes to memory.
                let mut text = Vec::new();
                clap_complete::generate(shell, &mut Shipped::beside_options(), "krond", &mut text);
                out.write_all(&text)
            }
            Shipped::Man => out.write_all(page()?.as_bytes()),
        }
    }
}

/// The one page. There is one thing to do with a daemon, so the page of `run` tells everything. What
/// its help ends with is set as written.
fn page() -> io::Result<String> {
    const EXTRA: &str = ".SH EXTRA\n";
    let root = Options::command();
    let mut run = root.find_subcommand("run").cloned().unwrap_or_else(|| root.clone());
    run = run.name("krond").display_name("krond").bin_name("krond run");
    run = run.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true);
    if let Some(about) = root.get_about() {
        run = run.about(about.clone());
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(run).section("8").manual("Kron").render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let Some((before, extra)) = text.split_once(EXTRA) else { return Ok(text.into_owned()) };
    let end = extra.find(".SH ").unwrap_or(extra.len());
    let (extra, after) = extra.split_at(end);
    Ok(format!("{before}.SH NOTES\n.nf\n{extra}.fi\n{after}"))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn written(shipped: Shipped) -> String {
        let mut text = Vec::new();
        shipped.write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_page_is_of_section_8_and_tells_every_option_that_is_shown() {
        let page = written(Shipped::Man);
        assert!(page.contains("\n.TH krond 8 "), "{page}");
        assert!(page.contains("krond run"), "{page}");
        let options = Options::command();
        let run = options.find_subcommand("run").unwrap();
        let shown = run.get_opts().filter(|it| !it.is_hide_set()).filter_map(|it| it.get_long());
        let shown: Vec<String> = shown.map(|name| name.replace('-', "\\-")).collect();
        assert!(shown.len() > 5, "{shown:?}");
        for name in shown {
            assert!(page.contains(&format!("\\-\\-{name}")), "no {name} in {page}");
        }
        for told in ["SIGHUP", "Exit codes", ".SH VERSION"] {
            assert!(page.contains(told), "no {told} in {page}");
        }
    }

    #[test]
    fn the_help_is_the_daemons() {
        let about = |command: Command| command.get_about().map(ToString::to_string);
        assert_eq!(about(Shipped::beside_options()), about(Options::command()));
    }

    #[test]
    fn every_shell_completes_the_daemons_options() {
        for shell in Shell::value_variants() {
            let text = written(Shipped::Completions { shell: *shell });
            for word in ["krond", "state-dir", "completions"] {
                assert!(text.contains(word), "no {word} for {shell}");
            }
        }
    }
}
