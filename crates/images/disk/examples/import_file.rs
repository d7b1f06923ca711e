//! Imports a layer from a file and prints time and memory: `import_file LAYER TARGET`.
//!
//! The layer is a blob as a registry has it. Compare with
//! `tar -xf LAYER && qemu-img convert -O raw disk/disk.img TARGET`.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use disk::{Checkpoint, Contents, FileSink, Layer, Options, Progress, Source, Watch, import};

/// A blob in a file.
struct Blob(String);

impl Source for Blob {
    fn open(&mut self, _: &Layer, offset: u64) -> std::io::Result<Box<dyn Read + Send>> {
        let mut file = File::open(&self.0)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file))
    }
}

/// Counts checkpoints without output.
struct Quiet {
    start: Instant,
    checkpoints: u32,
}

impl Watch for Quiet {
    fn now(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn checkpoint(&mut self, _: Checkpoint) {
        self.checkpoints += 1;
    }
}

/// The most memory that this process had, in KiB.
fn peak() -> String {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or_else(String::new, |value| value.trim().to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, layer, target, digest, rest @ ..] = arguments.as_slice() else {
        return Err("usage: import_file LAYER TARGET DIGEST [DIFF_ID]".into());
    };
    let target = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(target)?;
    let mut sink = FileSink::new(target, None)?;
    let layers = [Layer {
        digest: digest.parse()?,
        is_verified: true,
        size: Some(std::fs::metadata(layer)?.len()),
        diff_id: rest.first().map(|text| text.parse()).transpose()?,
        contents: Contents::Archive,
    }];
    let mut watch = Quiet {
        start: Instant::now(),
        checkpoints: 0,
    };
    let imported = import(
        &layers,
        &mut Blob(layer.clone()),
        &mut sink,
        &Options::default(),
        None,
        &mut watch,
    )?;
    writeln!(
        std::io::stdout(),
        "{:.2} s, peak {}, {} checkpoints, {imported:?}",
        watch.start.elapsed().as_secs_f64(),
        peak(),
        watch.checkpoints,
    )?;
    Ok(())
}
