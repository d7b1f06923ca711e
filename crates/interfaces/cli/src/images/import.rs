//! `medley images import`: the disk of one architecture as a raw file.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use importer::{Imported, Request, Unfinished, WebOptions};
use indicatif::BinaryBytes;
use machinery::quantity::Quantity;
use platform::{Source, known_architecture};
use serde_json::json;

use super::progress::{ProgressReporter, line};
use super::registry::RegistryArguments;
use crate::governance::output::Data;
use crate::{exit, process};

/// Write the disk in a container disk, or on a web server, to a raw file or a block device.
///
/// Everything is verified, and the file appears under its name only when complete: until then it is
/// FILE.part. Progress goes to standard error: a bar on a terminal, else lines of JSON.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The image: docker://HOST/PATH:TAG, oci-archive:FILE[:NAME] or oci:FOLDER[:NAME]; or a raw or
    /// qcow2 disk, which may be compressed, at https://HOST/PATH.
    #[arg(value_name = "URL")]
    image: Source,

    /// The architecture, such as amd64, arm64 or s390x.
    #[arg(long, value_name = "ARCH")]
    arch: String,

    /// Where to write the disk.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    /// The largest disk to accept, such as 30Gi.
    #[arg(long, value_name = "LIMIT")]
    size: Option<String>,

    /// Overwrite an existing file. Block devices are always overwritten.
    #[arg(long)]
    force: bool,

    /// Keep FILE.part if the import fails, and resume from it the next time where possible.
    #[arg(long)]
    keep: bool,

    /// Accept a disk that boots on other architectures only.
    #[arg(long)]
    skip_arch_check: bool,

    /// Expected checksum of a file on a web server: sha256:DIGITS or sha512:DIGITS.
    #[arg(long, value_name = "CHECKSUM")]
    checksum: Option<String>,

    /// A header to send to a web server. Can be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,

    /// Output format; a few lines of text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

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
        request.keyring = self.registry.keyring()?;
        request.limit = self.size.as_deref().map(bytes).transpose()?;
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

/// A Kubernetes quantity in bytes.
fn bytes(text: &str) -> anyhow::Result<u64> {
    let quantity: Quantity = text
        .parse()
        .with_context(|| format!("--size {text:?}: expected bytes, such as 10Gi or 5G"))?;
    match u64::try_from(quantity.value()) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => bail!("--size {text:?}: expected more than 0 bytes, such as 10Gi or 5G"),
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let request = arguments.request()?;
    let runtime = process::build_runtime()?;
    let outcome = runtime.block_on(async {
        let stop = process::stop_signal()?;
        anyhow::Ok(importer::import(request, ProgressReporter::new(), stop).await)
    })?;
    let imported = match outcome {
        Ok(imported) => {
            if !std::io::stderr().is_terminal() {
                line(&json!({ "event": "imported", "size": imported.disk.size }));
            }
            imported
        }
        Err(error) => {
            let reason = error.reason();
            if !std::io::stderr().is_terminal() {
                line(&json!({ "event": "failed", "reason": reason.as_str() }));
            }
            return Err(explained(error, &arguments.to));
        }
    };
    let text = match arguments.output {
        Some(form) => {
            let value = serde_json::to_value(&imported).context("writing the result")?;
            form.write(&value)?
        }
        None => render(&imported),
    };
    exit::print(&text)
}

/// Adds the next step to the error.
fn explained(error: importer::Error, to: &std::path::Path) -> anyhow::Error {
    let advice = match &error {
        importer::Error::Exists { .. } => "--force overwrites it",
        importer::Error::Architecture { .. } => "--skip-arch-check accepts it",
        importer::Error::NoMatch { .. } => "medley image inspect shows the available platforms",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(bytes("1Ki").unwrap(), 1024);
        assert_eq!(bytes("5G").unwrap(), 5_000_000_000);
        for bad in ["", "0", "-1", "ten", "10 Gi"] {
            let message = format!("{:#}", bytes(bad).unwrap_err());
            assert!(message.contains("10Gi or 5G"), "{message}");
        }
    }
}
