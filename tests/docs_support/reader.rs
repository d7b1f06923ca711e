//! Runs the commands of a page in a shell.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::compare;
use super::page::{Page, RunMode, Step};

/// Limit of a single command, and of waiting for the output of a background command.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The path of the clone in the pages.
const CLONE: &str = "/srv/medley";

/// Wrapper of the tested binary; clusters get free ports, because several run at a time.
const MEDLEY: &str = r#"#!/bin/bash
if [ "$1" = up ]; then
  shift
  case " $* " in *" --console "*) ;; *) set -- --console 127.0.0.1:0 "$@" ;; esac
  set -- up --listen 127.0.0.1:0 "$@"
fi
exec BINARY "$@"
"#;
/// Stand-in for cargo: the binary is built already.
const CARGO: &str = r#"#!/bin/bash
case "$*" in
  "build --release") exit 0 ;;
  "run --release -- "*) shift 3; exec medley "$@" ;;
esac
echo "cargo $*: pages are not tested with this" >&2
exit 1
"#;
/// Wrapper of kubectl: `--watch` ends after two seconds.
const KUBECTL: &str = r#"#!/bin/bash
case " $* " in
  *" --watch "* | *" -w "*) timeout 2 KUBECTL "$@"; [ $? = 124 ] ;;
  *) exec KUBECTL "$@" ;;
esac
"#;

/// A clone of the repository, and possibly a cluster.
pub(crate) struct Reader {
    folder: TempDir,
    background: Vec<Background>,
}

impl Reader {
    /// Creates a clone with the built binary.
    pub(crate) fn new(root: &Path, binary: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let reader = Self {
            folder,
            background: Vec::new(),
        };
        for name in ["docs", "deploy"] {
            symlink(root.join(name), reader.place().join(name)).unwrap();
        }
        let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| find("kubectl"));
        let programs = reader.place().join("target/release");
        fs::create_dir_all(&programs).unwrap();
        for (name, text) in [
            ("medley", MEDLEY.replace("BINARY", binary)),
            ("cargo", CARGO.to_owned()),
            ("kubectl", KUBECTL.replace("KUBECTL", &kubectl)),
        ] {
            let file = programs.join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink(binary, programs.join("kubectl-medley")).unwrap();
        symlink("release", reader.place().join("target/debug")).unwrap();
        reader
    }

    fn place(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Starts a cluster for pages that do not start one themselves.
    pub(crate) fn has_cluster(&mut self, arguments: &str) {
        let step = Step {
            line: 0,
            command: format!("medley up --data ./cluster {arguments}"),
            shown: vec!["...".to_owned(), "ready".to_owned()],
        };
        if let Some(problem) = self.start(&step) {
            panic!("{problem}");
        }
    }

    /// Runs the commands of a page; returns all differences.
    pub(crate) fn follow(&mut self, page: &Page) -> Vec<String> {
        let mut problems = Vec::new();
        let mut shell = Shell::start(&self.place());
        for block in &page.blocks {
            for step in &block.steps {
                let found = match block.how {
                    RunMode::NotRun(_) => continue,
                    RunMode::Background => self.start(step).map(Problem::Fatal),
                    RunMode::Run => self.run(&mut shell, step),
                };
                let (text, goes_on) = match found {
                    None => continue,
                    Some(Problem::Output(text)) => (text, true),
                    Some(Problem::Fatal(text)) => (text, false),
                };
                problems.push(format!(
                    "{}:{}: $ {}\n{text}",
                    page.path, step.line, step.command
                ));
                // Later steps depend on this one.
                if !goes_on {
                    return problems;
                }
            }
        }
        problems
    }

    fn run(&self, shell: &mut Shell, step: &Step) -> Option<Problem> {
        let started = Instant::now();
        loop {
            let Some((code, output)) = shell.run(&step.command) else {
                return Some(Problem::Fatal("it does not end".to_owned()));
            };
            let output = self.seen(&output);
            let failed = code != 0 && !may_fail(step);
            let same = step.shown.is_empty() || compare::same(&step.shown, &output);
            if !failed && same {
                return None;
            }
            // The cluster may not have converged yet: read-only commands are retried.
            if started.elapsed() < COMMAND_TIMEOUT / 2 && only_reads(&step.command) {
                std::thread::sleep(RETRY_INTERVAL);
                continue;
            }
            if failed {
                let text = format!("ended with {code}\n{output}");
                return Some(Problem::Fatal(text));
            }
            return Some(Problem::Output(difference(&step.shown, &output)));
        }
    }

    /// Starts a background command and waits for the expected output.
    fn start(&mut self, step: &Step) -> Option<String> {
        let number = self.background.len();
        let log = self.place().join(format!("background-{number}.log"));
        let file = File::create(&log).unwrap();
        let child = bash(&self.place())
            .args(["-c", &format!("exec {}", step.command)])
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        self.background.push(Background { child });
        // More output may follow.
        let mut shown = step.shown.clone();
        shown.push("...".to_owned());
        let started = Instant::now();
        loop {
            let output = self.seen(&fs::read_to_string(&log).unwrap());
            if compare::same(&shown, &output) {
                return None;
            }
            let ended = self
                .background
                .last_mut()
                .is_some_and(|it| it.child.try_wait().is_ok_and(|it| it.is_some()));
            if ended || started.elapsed() > COMMAND_TIMEOUT {
                return Some(difference(&step.shown, &output));
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Output with the folder of the clone replaced by the one in the pages.
    fn seen(&self, output: &str) -> String {
        output.replace(self.folder.path().to_str().unwrap(), CLONE)
    }
}

enum Problem {
    /// The output differs from the page.
    Output(String),
    /// The rest of the page cannot be run.
    Fatal(String),
}

fn difference(shown: &[String], came: &str) -> String {
    let mut text = String::from("the page shows:\n");
    for line in shown {
        let _ = writeln!(text, "  | {line}");
    }
    text.push_str("it says:\n");
    for line in came.lines() {
        let _ = writeln!(text, "  | {line}");
    }
    text
}

/// Whether the page shows an error, or the exit code carries a result.
fn may_fail(step: &Step) -> bool {
    let error = |line: &String| line.starts_with("error: ") || line.starts_with("Error ");
    let says_by_code = ["medley diff ", "kubectl auth can-i "];
    says_by_code.iter().any(|it| step.command.starts_with(it)) || step.shown.iter().any(error)
}

/// Whether a command can be repeated without side effects.
fn only_reads(command: &str) -> bool {
    const BEGINNINGS: [&str; 16] = [
        "kubectl get ",
        "kubectl describe ",
        "kubectl wait ",
        "kubectl rollout status ",
        "kubectl logs ",
        "medley status",
        "medley plan ",
        "medley diff ",
        "medley explain ",
        "medley history",
        "medley images explain ",
        "medley cpu",
        "medley place ",
        "medley fleet list",
        "medley release status",
        "medley release explain ",
    ];
    BEGINNINGS.iter().any(|begin| command.starts_with(begin))
        || command == "medley images"
        || command.starts_with("kubectl -n ") && command.contains(" get ")
}

fn find(program: &str) -> String {
    let output = Command::new("bash")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{program} is not on the PATH");
    found.trim().to_owned()
}

fn bash(folder: &Path) -> Command {
    let programs = folder.join("target/release");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command
        .current_dir(folder)
        .env("HOME", folder)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("KUBECONFIG", folder.join("cluster/kubeconfig"))
        .env_remove("RUST_LOG")
        .env("COLUMNS", "200")
        .stdin(Stdio::null());
    command
}

struct Background {
    child: Child,
}

impl Drop for Background {
    fn drop(&mut self) {
        // Fails if the process has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One bash for a whole page, so that variables and functions persist.
struct Shell {
    child: Child,
    input: ChildStdin,
    codes: Receiver<i32>,
    step: PathBuf,
    output: PathBuf,
}

impl Shell {
    fn start(folder: &Path) -> Self {
        let mut child = bash(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, codes) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Ok(code) = line.trim().parse() else {
                    continue;
                };
                if sender.send(code).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take().unwrap(),
            child,
            codes,
            step: folder.join(".step.sh"),
            output: folder.join(".output"),
        }
    }

    /// Exit code and output; nothing after a timeout.
    fn run(&mut self, command: &str) -> Option<(i32, String)> {
        fs::write(&self.step, format!("{command}\n")).unwrap();
        let line = format!(
            "{{ . {}; }} > {} 2>&1 < /dev/null; echo $?\n",
            self.step.display(),
            self.output.display()
        );
        self.input.write_all(line.as_bytes()).ok()?;
        let code = self.codes.recv_timeout(COMMAND_TIMEOUT).ok()?;
        let output = fs::read(&self.output).unwrap();
        Some((code, String::from_utf8_lossy(&output).into_owned()))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Fails if the shell has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
