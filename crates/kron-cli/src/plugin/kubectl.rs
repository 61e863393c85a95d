//! Asking a cluster, by way of `kubectl`.
//!
//! So every kubeconfig, context, credential plugin and proxy that works for kubectl works here, and
//! there is no second client to configure. No shell is involved. What kubectl says on its standard
//! error is passed on while it says it: a credential plugin may be waiting for somebody to read it.
//!
//! **Invariant:** only `kubectl get` is ever run. Nothing here changes a cluster.
//!
//! **Invariant:** a bearer token goes to kubectl and nowhere else: no text that is shown or written
//! has it.

use std::fmt;
use std::io::{self, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::args::{ChoiceArgs, ClusterArgs, Token};
use crate::text;

/// The most that is read of one answer.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// How much is kept of what kubectl says on its standard error; more than enough to know why.
const SAID_BYTES_MAX: usize = 64 * 1024;
/// How long somebody at a prompt waits for names, and what kubectl is told about it.
const PROMPT_PATIENCE: Duration = Duration::from_secs(3);
const PROMPT_TIMEOUT: &str = "--request-timeout=2s";

/// Which objects of a kind are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    /// Those with these names, in one namespace.
    Named(&'a [String]),
    /// All that the flags choose.
    Chosen(&'a ChoiceArgs),
}

impl<'a> Which<'a> {
    /// What names and flags mean together; they exclude each other.
    pub(crate) fn of(names: &'a [String], choice: &'a ChoiceArgs) -> Which<'a> {
        if names.is_empty() { Which::Chosen(choice) } else { Which::Named(names) }
    }
}

/// Why a cluster did not answer.
#[derive(Debug)]
pub(crate) enum KubectlError {
    /// There is no `kubectl`.
    Missing,
    /// It could not be run.
    NotRun(io::Error),
    /// The cluster does not know what was asked for.
    NoSuchKind {
        /// The kind, as kubectl was told.
        kind: String,
    },
    /// There is no object of that name.
    NotFound {
        /// The kind, as kubectl was told.
        kind: String,
    },
    /// Whoever asks may not.
    Forbidden {
        /// The kind, as kubectl was told.
        kind: String,
    },
    /// It failed and has said why.
    Failed {
        /// Its exit code.
        code: Option<i32>,
    },
    /// The answer is longer than anybody expects.
    TooLong,
    /// The answer is not what was asked for.
    Strange(serde_json::Error),
}

impl KubectlError {
    /// 1 where the answer is no, else 6.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            KubectlError::NotFound { .. } => 1,
            _ => 6,
        }
    }
}

impl fmt::Display for KubectlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KubectlError::Missing => f.write_str(
                "error: `kubectl` is not on the PATH\nhint: the cluster is asked through it; \
                 install it, or say where it is by `PATH`",
            ),
            KubectlError::NotRun(error) => write!(f, "error: cannot run `kubectl`: {error}"),
            KubectlError::NoSuchKind { kind } if is_kronjobs(kind) => f.write_str(
                "error: this cluster has no KronJobs: their definition is not installed\nhint: is \
                 it the right `--context`? If it is, docs/operator.md tells how to install the \
                 operator, which brings it",
            ),
            KubectlError::NoSuchKind { kind } => {
                write!(f, "error: this cluster does not know `{kind}`")
            }
            // What is wrong has been told by kubectl.
            KubectlError::NotFound { kind } => {
                let all = match is_kronjobs(kind) {
                    true => "kubectl kron next --all-namespaces",
                    false => "kubectl get cronjobs --all-namespaces",
                };
                write!(f, "hint: `--namespace NAME` says where to look; `{all}` shows all")
            }
            KubectlError::Forbidden { kind } if is_kronjobs(kind) => f.write_str(
                "hint: the roles `kron-view` and `kron-edit`, which come with the operator, give \
                 access to KronJobs; who has `view`, `edit` or `admin` in a namespace has them \
                 there",
            ),
            KubectlError::Forbidden { kind } => {
                write!(f, "hint: a role such as `view` gives access to `{kind}`")
            }
            KubectlError::Failed { code: Some(code) } => {
                write!(f, "error: `kubectl get` failed with exit code {code}, as told above")
            }
            KubectlError::Failed { code: None } => {
                f.write_str("error: `kubectl get` was ended by a signal")
            }
            KubectlError::TooLong => write!(
                f,
                "error: kubectl answered with more than {} MiB\nhint: ask for one namespace",
                ANSWER_BYTES_MAX / 1024 / 1024
            ),
            KubectlError::Strange(error) => {
                write!(f, "error: what kubectl answered cannot be read: {error}")
            }
        }
    }
}

fn is_kronjobs(kind: &str) -> bool {
    kind.starts_with("kronjobs")
}

/// `kubectl`, with the flags that say which cluster.
pub(crate) struct Kubectl<'a> {
    cluster: &'a ClusterArgs,
}

impl<'a> Kubectl<'a> {
    pub(crate) fn new(cluster: &'a ClusterArgs) -> Kubectl<'a> {
        Kubectl { cluster }
    }

    /// The namespace that was said.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.cluster.namespace.as_deref()
    }

    /// The objects of a kind.
    pub(crate) fn list<T: DeserializeOwned>(
        &self,
        kind: &str,
        which: Which<'_>,
    ) -> Result<Vec<T>, KubectlError> {
        let mut words;
        match which {
            Which::Named(names) => {
                words = self.flags(self.namespace());
                words.extend([kind.to_owned(), "--".to_owned()]);
                words.extend(names.iter().cloned());
                if names.len() == 1 {
                    return Ok(vec![self.get(kind, &words)?]);
                }
            }
            Which::Chosen(choice) => {
                words = match choice.all_namespaces {
                    true => self.flags(None),
                    false => self.flags(self.namespace()),
                };
                words.extend(choice.all_namespaces.then(|| "--all-namespaces".to_owned()));
                words.extend(choice.selector.as_ref().map(|query| format!("--selector={query}")));
                words.push(kind.to_owned());
            }
        }
        Ok(self.get::<Items<T>>(kind, &words)?.items)
    }

    /// The objects of a kind in a namespace that a selector chooses, such as
    /// `--selector=app=shop`.
    pub(crate) fn select<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        selector: String,
    ) -> Result<Vec<T>, KubectlError> {
        let mut words = self.flags(Some(namespace));
        words.extend([selector, kind.to_owned()]);
        Ok(self.get::<Items<T>>(kind, &words)?.items)
    }

    /// A command line for somebody to run.
    pub(crate) fn command_line(&self, namespace: Option<&str>, words: &[&str]) -> String {
        let mut line = vec!["kubectl".to_owned()];
        line.extend(self.flags(namespace));
        line.extend(words.iter().map(|&word| word.to_owned()));
        text::command_line(&line)
    }

    /// The names of the objects of a kind, for somebody at a prompt: without a word about what went
    /// wrong, and soon or not at all.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let mut command = self.command("name");
        command.args(self.flags(self.namespace())).args([PROMPT_TIMEOUT, kind]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return Vec::new() };
        let Some(stdout) = child.stdout.take() else { return Vec::new() };
        let (say, hear) = mpsc::channel();
        std::thread::spawn(move || {
            let mut answer = Vec::new();
            let read = stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
            let _ = say.send(read.map(|_| answer));
        });
        let answer = hear.recv_timeout(PROMPT_PATIENCE);
        // It has ended, or nobody waits for it any more.
        let _ = child.kill();
        let _ = child.wait();
        let Ok(Ok(answer)) = answer else { return Vec::new() };
        // Each line is such as `kronjob.kron.dev/backup`.
        let answer = String::from_utf8_lossy(&answer);
        let name = |line: &str| line.split_once('/').map(|(_, name)| name.to_owned());
        answer.lines().filter_map(name).collect()
    }

    /// The flags that may be shown to anybody.
    fn flags(&self, namespace: Option<&str>) -> Vec<String> {
        let cluster = self.cluster;
        let said = |name: &str, value: Option<&str>| Some(format!("--{name}={}", value?));
        let mut flags: Vec<String> = [
            said("kubeconfig", cluster.kubeconfig.as_deref()),
            said("context", cluster.context.as_deref()),
            said("cluster", cluster.cluster.as_deref()),
            said("user", cluster.user.as_deref()),
            said("server", cluster.server.as_deref()),
            said("as", cluster.impersonate.as_deref()),
            said("as-uid", cluster.as_uid.as_deref()),
            said("request-timeout", cluster.request_timeout.as_deref()),
            said("namespace", namespace),
        ]
        .into_iter()
        .flatten()
        .collect();
        flags.extend(cluster.groups.iter().map(|group| format!("--as-group={group}")));
        flags
    }

    /// `kubectl get`, with the token if there is one.
    fn command(&self, output: &str) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("get").arg(format!("--output={output}"));
        command.args(self.cluster.token.as_ref().map(Token::flag));
        command
    }

    fn get<T: DeserializeOwned>(&self, kind: &str, words: &[String]) -> Result<T, KubectlError> {
        let mut command = self.command("json");
        command.args(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => KubectlError::Missing,
            _ => KubectlError::NotRun(error),
        })?;
        let heard = hear(child).map_err(KubectlError::NotRun)?;
        if heard.answer.len() as u64 > ANSWER_BYTES_MAX {
            return Err(KubectlError::TooLong);
        }
        if heard.code != Some(0) {
            let said = String::from_utf8_lossy(&heard.said);
            let kind = kind.to_owned();
            // The second is said while kubectl still remembers a definition that is gone.
            let is_unknown = said.contains("the server doesn't have a resource type")
                || said.contains("the server could not find the requested resource");
            return Err(if is_unknown {
                KubectlError::NoSuchKind { kind }
            } else if said.contains("(NotFound)") {
                KubectlError::NotFound { kind }
            } else if said.contains("(Forbidden)") {
                KubectlError::Forbidden { kind }
            } else {
                KubectlError::Failed { code: heard.code }
            });
        }
        serde_json::from_slice(&heard.answer).map_err(KubectlError::Strange)
    }
}

/// What `kubectl get` answers with when it is not asked for one object.
#[derive(serde::Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

/// What a child said until it ended.
struct Heard {
    code: Option<i32>,
    answer: Vec<u8>,
    /// The beginning of what it said on its standard error.
    said: Vec<u8>,
}

/// Listens to both of a child's streams, and passes the second one on.
fn hear(mut child: Child) -> io::Result<Heard> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let talk = std::thread::spawn(move || stderr.map_or(Ok(Vec::new()), pass_on));
    let mut answer = Vec::new();
    let read = match stdout {
        // The pipe closes when this is dropped, so that a child with more to say ends.
        Some(stdout) => stdout.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer),
        None => Ok(0),
    };
    let status = child.wait()?;
    let said = talk.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    read?;
    Ok(Heard { code: status.code(), answer, said })
}

fn pass_on(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(kept),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // Whoever cannot be told still gets the exit code.
        let _ = io::stderr().write_all(&buffer[..length]);
        let room = SAID_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..length.min(room)]);
    }
}
