//! `medley images import`: the disk of one architecture as a raw file.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use importer::{Imported, Request, Unfinished, WebOptions};
use indicatif::BinaryBytes;
use oci::resolve;
use platform::{Source, known_architecture};
use serde_json::json;

use super::progress::{ProgressReporter, line};
use super::registry::RegistryArguments;
use crate::output::OutputArguments;
use crate::process;
use crate::read::bytes;

/// Write the disk of a container disk or web server to a raw file or a block device.
///
/// Verifies all data, and writes to FILE.part until the disk is complete. Progress goes to standard
/// error: a progress bar on a terminal, lines of JSON otherwise.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Image to import: docker://HOST/PATH:TAG, oci-archive:FILE[:NAME] or oci:FOLDER[:NAME]; or a
    /// raw or qcow2 disk, optionally compressed, at https://HOST/PATH.
    #[arg(value_name = "URL")]
    image: Source,

    /// Architecture of the disk, such as amd64, arm64 or s390x.
    #[arg(long, value_name = "ARCH")]
    arch: String,

    /// File or block device to write the disk to.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    /// Fail if the disk is larger than this, such as 30Gi.
    #[arg(long, value_name = "LIMIT", value_parser = bytes)]
    size: Option<u64>,

    /// Overwrite an existing file. Block devices are always overwritten.
    #[arg(long)]
    force: bool,

    /// Keep FILE.part if the import fails, so that the next run can resume from it.
    #[arg(long)]
    keep: bool,

    /// Accept a disk that only boots on other architectures.
    #[arg(long)]
    skip_arch_check: bool,

    /// Expected checksum of a file on a web server: sha256:DIGITS or sha512:DIGITS.
    #[arg(long, value_name = "CHECKSUM")]
    checksum: Option<String>,

    /// A header to send to a web server. Can be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    registry: RegistryArguments,
}

impl Arguments {
    fn request(&self) -> anyhow::Result<Request> {
        let Some(architecture) = known_architecture(&self.arch) else {
            bail!(
                "--arch {:?} is not an architecture; expected one such as amd64, arm64, s390x, ppc64le or riscv64",
                self.arch
            );
        };
        let client = self.registry.client(&self.image)?;
        let mut request = Request::new(self.image.clone(), client, architecture, self.to.clone());
        // The user chose the file and the host, so `xz -9` and `zstd --long` are accepted here,
        // which take up to 128 MiB of memory; importer pods refuse them.
        request.options.limits.window_log = 27;
        request.keyring = self.registry.keyring_for(&self.image)?;
        request.limit = self.size;
        request.overwrite = self.force;
        request.sniff = !self.skip_arch_check;
        if self.keep {
            request.unfinished = Unfinished::Keep;
        }
        request.web = self.web()?;
        Ok(request)
    }

    fn web(&self) -> anyhow::Result<WebOptions> {
        let is_web = matches!(self.image, Source::Web(_));
        ensure!(
            is_web || (self.checksum.is_none() && self.header.is_empty()),
            "--checksum and --header apply to https:// and http:// only: images are verified by digest"
        );
        let headers = self.header.iter().map(String::as_str);
        WebOptions::read(self.checksum.as_deref(), headers)
            .map_err(anyhow::Error::msg)
            .context("reading --checksum and --header")
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let request = arguments.request()?;
    let runtime = process::build_runtime()?;
    let outcome = runtime.block_on(async {
        let stop = process::stop_signal()?;
        anyhow::Ok(importer::import(request, ProgressReporter::new(), stop).await)
    })?;
    if !std::io::stderr().is_terminal() {
        line(&match &outcome {
            Ok(imported) => json!({ "event": "imported", "size": imported.disk.size }),
            Err(error) => json!({ "event": "failed", "reason": error.reason().as_str() }),
        });
    }
    let imported = outcome.map_err(|error| explained(error, &arguments.to))?;
    arguments.output.print(&imported, || render(&imported))
}

/// Adds the next step to the error.
fn explained(error: importer::Error, to: &std::path::Path) -> anyhow::Error {
    let advice = match &error {
        importer::Error::Exists { .. } => "--force overwrites it",
        importer::Error::Architecture { .. } => "--skip-arch-check accepts it",
        importer::Error::Resolve(resolve::Error::NoMatch { .. }) => {
            "medley image inspect shows the available platforms"
        }
        _ if error.reason() == importer::Reason::PullUnauthorized => {
            "--authfile FILE names credentials"
        }
        _ => return error.into(),
    };
    let what = format!("no disk for {} ({advice})", to.display());
    anyhow::Error::new(error).context(what)
}

fn render(imported: &Imported) -> String {
    let disk = &imported.disk;
    let resumed = if imported.resumed { ", resumed" } else { "" };
    let boots = imported
        .sniffed
        .as_ref()
        .filter(|sniffed| !sniffed.architectures.is_empty())
        .map(|sniffed| {
            let all: Vec<&str> = sniffed.architectures.iter().copied().collect();
            format!("Boots on: {}\n", all.join(", "))
        })
        .unwrap_or_default();
    format!(
        "Disk:     {}\nImage:    {}\nPlatform: {}\nDigest:   {}\nSize:     {} ({} written, {} fetched{resumed})\nContent:  {}\n{boots}",
        imported.target.display(),
        imported.source,
        imported.platform,
        imported.digest,
        BinaryBytes(disk.size),
        BinaryBytes(disk.written),
        BinaryBytes(disk.fetched),
        disk.content.as_str(),
    )
}
