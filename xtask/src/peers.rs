//! `cargo xtask peers`: builds the programs of other projects that suites run beside, from the Go modules in `peers/`.
//!
//! Each program is kept in a cache, in a folder for its module and version. Go's own build cache does the rest:
//! programs of one module share most packages.

mod table;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::shell;
use table::{Crds, Edit, MODULES, Module, Program, Replacement};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Programs to build, or folders of peers/ for all programs and CRDs of a module; everything if absent.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print what is pinned and whether it is built, and build nothing.
    #[arg(long)]
    list: bool,
    /// Print the folder of all built programs at the end, for KUBEBUILDER_ASSETS, and nothing else on standard output.
    #[arg(long, conflicts_with = "list")]
    print_assets: bool,
}

/// Builds or lists the selected programs.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.list {
        for target in targets(&Cache::open()?, &arguments.names)? {
            shell::say(&target.line(if target.is_current() { "built" } else { "-" }));
        }
        return Ok(());
    }
    let report = if arguments.print_assets {
        shell::warn
    } else {
        shell::say
    };
    let assets = provide(&arguments.names, report)?;
    if arguments.print_assets {
        shell::say(&assets.display().to_string());
    }
    Ok(())
}

/// Builds what is missing of the named programs, of all without a name, and returns the folder with links to programs.
pub(crate) fn provide(names: &[String], report: fn(&str)) -> anyhow::Result<PathBuf> {
    let cache = Cache::open()?;
    let targets = targets(&cache, names)?;
    if shell::find("go").is_none() {
        bail!(
            "Go is not installed: building peers needs go {} or later",
            required_go(&targets)
        );
    }
    let mut failed = Vec::new();
    for target in &targets {
        let begin = Instant::now();
        let current = target.is_current();
        if !current && let Err(error) = target.build() {
            report(&format!("{:<39} failed: {error:#}", target.name));
            failed.push(target.name.as_str());
            continue;
        }
        target.link(&cache)?;
        let state = if current {
            "cached".to_owned()
        } else {
            format!("{:.0}s", begin.elapsed().as_secs_f64())
        };
        report(&target.line(&state));
    }
    if !failed.is_empty() {
        bail!("not built: {}", failed.join(", "));
    }
    Ok(cache.programs())
}

/// Names and pinned versions of programs, such as `etcd v3.7.3, kube-apiserver v1.36.3`.
pub(crate) fn versions(names: &[&str]) -> anyhow::Result<String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let versions: Vec<String> = targets(&Cache::open()?, &names)?
        .iter()
        .filter(|target| matches!(target.output, Output::Program(_)))
        .map(|target| format!("{} {}", target.name, short(&target.version)))
        .collect();
    Ok(versions.join(", "))
}

/// The folder of the package that a test binary was built from. Go runs tests there, and they read its files.
pub(crate) fn package_folder(suite: &str) -> anyhow::Result<PathBuf> {
    let targets = targets(&Cache::open()?, &[suite.to_owned()])?;
    let target = targets.first().context("a name that selects nothing")?;
    let Output::Program(program) = target.output else {
        bail!("{suite} is not a test binary");
    };
    let folder = shell::read(target.go().args([
        "list",
        "-mod=readonly",
        "-find",
        "-f",
        "{{.Dir}}",
        &target.package(program),
    ]))?;
    Ok(PathBuf::from(folder.trim()))
}

fn targets(cache: &Cache, names: &[String]) -> anyhow::Result<Vec<Target>> {
    select(names)?
        .into_iter()
        .map(|(module, output)| Target::new(cache, module, output))
        .collect()
}

/// What is made of a module.
#[derive(Debug, Clone, Copy)]
enum Output {
    Program(Program),
    Crds(Crds),
}

/// Outputs with the given names, in the order of the table.
fn select(names: &[String]) -> anyhow::Result<Vec<(Module, Output)>> {
    let mut outputs = Vec::new();
    for module in MODULES {
        outputs.extend(
            module
                .programs
                .iter()
                .map(|program| (module, Output::Program(*program))),
        );
        outputs.extend(module.crds.map(|crds| (module, Output::Crds(crds))));
    }
    let matches = |module: &Module, output: &Output, name: &String| {
        *name == module.folder || *name == output_name(module, output)
    };
    if let Some(unknown) = names.iter().find(|name| {
        !outputs
            .iter()
            .any(|(module, output)| matches(module, output, name))
    }) {
        let known: Vec<String> = outputs
            .iter()
            .map(|(module, output)| output_name(module, output))
            .collect();
        bail!("unknown peer {unknown:?}; available: {}", known.join(", "));
    }
    if !names.is_empty() {
        outputs.retain(|(module, output)| names.iter().any(|name| matches(module, output, name)));
    }
    Ok(outputs)
}

fn output_name(module: &Module, output: &Output) -> String {
    match output {
        Output::Program(program) => program.name.to_owned(),
        Output::Crds(_) => format!("{}-crds", module.folder),
    }
}

/// The folder with everything that was built.
#[derive(Debug)]
struct Cache(PathBuf);

impl Cache {
    /// `$MEDLEY_PEERS`, or a folder in the user's cache: peers outlive a clone of the repository.
    fn open() -> anyhow::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let root = match (set("MEDLEY_PEERS"), set("XDG_CACHE_HOME"), set("HOME")) {
            (Some(folder), _, _) => shell::root().join(folder),
            (_, Some(folder), _) => Path::new(&folder).join("medley/peers"),
            (_, _, Some(home)) => Path::new(&home).join(".cache/medley/peers"),
            _ => bail!("MEDLEY_PEERS has to name a folder if HOME is not set"),
        };
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Ok(Self(
            root.join(format!("{}-{architecture}", std::env::consts::OS)),
        ))
    }

    /// Links to all programs, side by side as `KUBEBUILDER_ASSETS` wants them.
    fn programs(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// Links to all CRDs.
    fn crds(&self) -> PathBuf {
        self.0.join("crds")
    }
}

/// One file to make.
#[derive(Debug)]
struct Target {
    name: String,
    module: Module,
    output: Output,
    /// The folder in `peers/`.
    folder: PathBuf,
    go_mod: String,
    /// Go files of the folder that are built with replaced files of the module.
    sources: String,
    version: String,
    path: PathBuf,
}

impl Target {
    fn new(cache: &Cache, module: Module, output: Output) -> anyhow::Result<Self> {
        let folder = shell::root().join("peers").join(module.folder);
        let file = folder.join("go.mod");
        let go_mod =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let version = pinned_version(&go_mod, module.path)
            .with_context(|| format!("{} does not require {}", file.display(), module.path))?
            .to_owned();
        let name = output_name(&module, &output);
        let file = match output {
            Output::Program(program) => program.name,
            Output::Crds(_) => "crds.yaml",
        };
        let path = cache
            .0
            .join(format!("{}@{version}", module.folder))
            .join(file);
        Ok(Self {
            name,
            module,
            output,
            sources: match module.replacements {
                [] => String::new(),
                _ => go_sources(&folder)?,
            },
            folder,
            go_mod,
            version,
            path,
        })
    }

    fn line(&self, state: &str) -> String {
        format!(
            "{:<39} {:<14} {state:<7} {}",
            self.name,
            short(&self.version),
            self.path.display()
        )
    }

    /// A copy of what the file was built from: a version alone does not show a changed `replace` line or flag.
    fn stamp(&self) -> PathBuf {
        self.path.with_file_name(format!(".{}.stamp", self.name))
    }

    fn recipe(&self) -> String {
        let arguments = match self.output {
            Output::Program(program) => self.build_arguments(program).join(" "),
            Output::Crds(crds) => format!("{crds:?}"),
        };
        let edits = match self.module.edits {
            [] => String::new(),
            edits => format!("{edits:?}\n"),
        };
        format!("go {arguments}\n{edits}{}\n{}", self.sources, self.go_mod)
    }

    fn is_current(&self) -> bool {
        self.path.is_file()
            && fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == self.recipe())
    }

    fn build(&self) -> anyhow::Result<()> {
        let folder = self.path.parent().context("a cache without folders")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        // Renamed at the end, because another process may run the previous one, or build the same.
        let part = self
            .path
            .with_file_name(format!(".{}.{}", self.name, std::process::id()));
        let made = match self.output {
            Output::Program(program) => self.build_program(program, &part),
            Output::Crds(crds) => self
                .crds(crds)
                .and_then(|text| fs::write(&part, text).context("writing CRDs")),
        };
        if made.is_err() {
            // Partial output of a failed build; there may be none.
            let _ = fs::remove_file(&part);
        }
        made?;
        self.copy_data(folder)?;
        fs::rename(&part, &self.path)
            .and_then(|()| fs::write(self.stamp(), self.recipe()))
            .with_context(|| format!("writing {}", self.path.display()))
    }

    fn build_program(&self, program: Program, output: &Path) -> anyhow::Result<()> {
        let mut build = self.go();
        build.args(self.build_arguments(program));
        let copies = PathBuf::from(format!("{}.edited", output.display()));
        let go_mod = match (self.module.edits, self.module.replacements) {
            ([], []) => Ok(None),
            (edits, replacements) => self.edit(edits, replacements, &copies).map(Some),
        };
        let built = go_mod.and_then(|go_mod| {
            build.args(go_mod.map(|file| format!("-modfile={}", file.display())));
            shell::run(build.arg("-o").arg(output).arg(self.package(program)))
        });
        if copies.exists() {
            fs::remove_dir_all(&copies)
                .with_context(|| format!("removing {}", copies.display()))?;
        }
        built
    }

    /// Copies modules into a folder, edits them there, and writes a `go.mod` that uses the copies. Go has an option to
    /// overlay single files, but refuses it for its module cache.
    fn edit(
        &self,
        edits: &[Edit],
        replacements: &[Replacement],
        folder: &Path,
    ) -> anyhow::Result<PathBuf> {
        let mut go_mod = self.go_mod.clone();
        let edited = edits.iter().map(|edit| edit.module);
        let replaced = replacements.iter().map(|replacement| replacement.module);
        let modules: BTreeSet<&str> = edited.chain(replaced).collect();
        for module in modules {
            let copy = folder.join(module);
            copy_folder(&self.source(module)?, &copy)?;
            go_mod = without_replacement(&go_mod, module);
            writeln!(go_mod, "\nreplace {module} => {}", copy.display())?;
        }
        for edit in edits {
            edit.apply(&folder.join(edit.module))?;
        }
        for replacement in replacements {
            replacement.apply(&self.folder, &folder.join(replacement.module))?;
        }
        let file = folder.join("go.mod");
        fs::write(&file, go_mod)
            .and_then(|()| fs::copy(self.folder.join("go.sum"), folder.join("go.sum")))
            .with_context(|| format!("writing {}", file.display()))?;
        Ok(file)
    }

    /// Copies what the programs read at run time; a folder that is there has the same version.
    fn copy_data(&self, folder: &Path) -> anyhow::Result<()> {
        for data in self.module.data {
            let copy = folder.join(data);
            if !copy.exists() {
                copy_folder(&self.source(self.module.path)?.join(data), &copy)?;
            }
        }
        Ok(())
    }

    /// The folder of a module's source.
    fn source(&self, module: &str) -> anyhow::Result<PathBuf> {
        shell::run(self.go().args(["mod", "download", module]))?;
        let folder =
            shell::read(
                self.go()
                    .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]),
            )?;
        Ok(PathBuf::from(folder.trim()))
    }

    /// Go in the folder of the module. Without cgo: no C headers are needed, and the programs run on any distribution.
    fn go(&self) -> Command {
        let mut go = Command::new("go");
        go.current_dir(&self.folder)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off");
        go
    }

    fn build_arguments(&self, program: Program) -> Vec<String> {
        let mut arguments: Vec<String> = if program.suite {
            vec!["test".into(), "-c".into()]
        } else {
            vec!["build".into()]
        };
        arguments.extend(["-mod=readonly".into(), "-trimpath".into()]);
        if !self.module.tags.is_empty() {
            arguments.push(format!("-tags={}", self.module.tags));
        }
        arguments.push(format!(
            "-ldflags=-s -w{}",
            self.module.version.linker_flags(&self.version)
        ));
        arguments
    }

    fn package(&self, program: Program) -> String {
        let first = program.package.split('/').next().unwrap_or_default();
        // As in Go: the first part of an import path is a host name.
        if first.contains('.') {
            return program.package.to_owned();
        }
        let package = format!("{}/{}", self.module.path, program.package);
        package.trim_end_matches('/').to_owned()
    }

    /// The CRDs, as one YAML stream.
    fn crds(&self, crds: Crds) -> anyhow::Result<String> {
        let (module, pattern) = match crds {
            Crds::Program => {
                return shell::read(self.go().args([
                    "run",
                    "-mod=readonly",
                    "-trimpath",
                    "./crds",
                ]));
            }
            Crds::Files(pattern) => (self.module.path, pattern),
            Crds::FilesOf(module, pattern) => (module, pattern),
        };
        let source = self.source(module)?;
        let (folder, file) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        let (prefix, suffix) = file.split_once('*').unwrap_or((file, ""));
        let folder = source.join(folder);
        let mut text = String::new();
        for path in files(&folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(prefix) && name.ends_with(suffix) {
                let document = fs::read_to_string(&path)
                    .with_context(|| format!("reading {}", path.display()))?;
                text.push_str("---\n");
                text.push_str(document.trim_start_matches("---\n").trim_end());
                text.push('\n');
            }
        }
        if text.is_empty() {
            bail!("no files match {pattern:?} in {module} {}", self.version);
        }
        Ok(text)
    }

    /// Links the file into the folder where suites look for it.
    fn link(&self, cache: &Cache) -> anyhow::Result<()> {
        let link = match self.output {
            Output::Program(program) => cache.programs().join(program.name),
            Output::Crds(_) => cache.crds().join(format!("{}.yaml", self.module.folder)),
        };
        if fs::read_link(&link).is_ok_and(|target| target == self.path) {
            return Ok(());
        }
        let folder = link.parent().context("a cache without folders")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let part = link.with_extension(format!("{}.part", std::process::id()));
        std::os::unix::fs::symlink(&self.path, &part)
            .and_then(|()| fs::rename(&part, &link))
            .with_context(|| format!("linking {}", link.display()))
    }
}

/// Files of a folder, by name.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let context = || format!("reading {}", folder.display());
    let mut paths = fs::read_dir(folder)
        .with_context(context)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .with_context(context)?;
    paths.sort_unstable();
    Ok(paths)
}

/// All Go files below a folder.
fn go_sources(folder: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for path in files(folder)? {
        if path.is_dir() {
            text.push_str(&go_sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "go") {
            let source = fs::read_to_string(&path);
            text.push_str(&source.with_context(|| format!("reading {}", path.display()))?);
        }
    }
    Ok(text)
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for path in files(from)? {
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            fs::copy(&path, &copy).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}

/// The required version of a module.
fn pinned_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim_start();
        let mut words = line
            .strip_prefix("require ")
            .unwrap_or(line)
            .split_whitespace();
        (words.next()? == module)
            .then(|| words.next())
            .flatten()
            .filter(|word| word.starts_with('v'))
    })
}

/// A `go.mod` in which a module is not replaced.
fn without_replacement(go_mod: &str, module: &str) -> String {
    let is_replacement = |line: &&str| {
        let line = line.trim_start();
        let line = line.strip_prefix("replace ").unwrap_or(line);
        line.strip_prefix(module)
            .is_some_and(|rest| rest.trim_start().starts_with("=>"))
    };
    let lines = go_mod.lines().filter(|line| !is_replacement(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A pseudo-version without its date and prefix: the commit.
fn short(version: &str) -> &str {
    match version.rsplit('-').next() {
        Some(commit) if version.matches('-').count() >= 2 && commit.len() == 12 => commit,
        _ => version,
    }
}

/// The latest Go version that any of the modules requires.
fn required_go(targets: &[Target]) -> String {
    let numbers = |version: &str| -> Vec<u32> {
        version
            .split('.')
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    targets
        .iter()
        .flat_map(|target| target.go_mod.lines())
        .filter_map(|line| line.strip_prefix("go "))
        .max_by_key(|version| numbers(version))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_pins_its_version() {
        let cache = Cache(PathBuf::from("cache"));
        for (module, output) in select(&[]).expect("all") {
            let target = Target::new(&cache, module, output).expect("a target");
            assert!(target.version.starts_with('v'), "{target:?}");
            assert!(
                target.folder.join("go.sum").is_file(),
                "{} has no go.sum",
                module.folder
            );
        }
    }

    #[test]
    fn name_selects_a_program_or_a_module() {
        let names = |given: &[&str]| -> Vec<String> {
            let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
            select(&given)
                .expect("known names")
                .iter()
                .map(|(module, output)| output_name(module, output))
                .collect()
        };
        assert_eq!(names(&["kubectl", "etcd"]), ["etcd", "kubectl"]);
        assert_eq!(
            names(&["kubevirt"]),
            ["virt-controller", "virt-api", "kubevirt-crds"]
        );
        assert!(select(&["kubctl".to_owned()]).is_err());
    }

    #[test]
    fn pinned_version_is_the_required_one() {
        let go_mod = "module m\n\ngo 1.26.0\n\nrequire a.io/b v1.2.3\n\nrequire (\n\ta.io/c v2.0.0 // indirect\n)\n\n\
                      replace (\n\ta.io/d => a.io/d v3.0.0\n)\n";
        assert_eq!(pinned_version(go_mod, "a.io/b"), Some("v1.2.3"));
        assert_eq!(pinned_version(go_mod, "a.io/c"), Some("v2.0.0"));
        assert_eq!(pinned_version(go_mod, "a.io/d"), None);
    }

    #[test]
    fn module_is_replaced_once() {
        let go_mod = "module m\n\nreplace a.io/b => a.io/b v1.0.0\n\nreplace (\n\ta.io/bc => a.io/bc v3.0.0\n\ta.io/b => ../b\n)\n";
        assert_eq!(
            without_replacement(go_mod, "a.io/b"),
            "module m\n\n\nreplace (\n\ta.io/bc => a.io/bc v3.0.0\n)\n"
        );
    }

    #[test]
    fn pseudo_version_is_shown_by_its_commit() {
        assert_eq!(short("v0.0.0-20251008211450-f537ae654848"), "f537ae654848");
        assert_eq!(short("v1.36.3"), "v1.36.3");
        assert_eq!(short("v3.8.0-alpha.0"), "v3.8.0-alpha.0");
    }
}
