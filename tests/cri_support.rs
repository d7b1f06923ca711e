//! `medley cri` as a process, and requests of a kubelet.
#![allow(dead_code, reason = "no suite uses all of it")]

use std::path::{Path, PathBuf};

use ::cri::api::ImageSpec;
use serde_json::Value;
use testkit::{CriClient, Process};

use crate::binary::{MEDLEY, until};

/// An image service in a folder.
pub(crate) struct Service {
    pub(crate) process: Process,
    pub(crate) client: CriClient,
    pub(crate) socket: PathBuf,
    pub(crate) root: PathBuf,
}

impl Service {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_as(folder, &[MEDLEY], arguments)
    }

    pub(crate) fn start_as(folder: &Path, program: &[&str], arguments: &[&str]) -> Self {
        let (socket, root) = (folder.join("cri.sock"), folder.join("store"));
        let (listen, store) = (socket.to_str().unwrap(), root.to_str().unwrap());
        let own = ["cri", "-v", "--listen", listen, "--root", store];
        let (first, before) = program.split_first().unwrap();
        let arguments = before.iter().chain(&own).chain(arguments);
        let mut process = Process::start(Path::new(first), arguments, folder).unwrap();
        until("it is ready", || {
            let output = process.output();
            assert!(process.ended().unwrap().is_none(), "{output}");
            output.contains("ready: unix://").then_some(())
        });
        Self {
            process,
            client: CriClient::new(&socket),
            socket,
            root,
        }
    }
}

/// An image by its name alone.
pub(crate) fn named(image: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        ..ImageSpec::default()
    }
}

/// An image by its name, for a handler.
pub(crate) fn of(image: &str, handler: &str) -> ImageSpec {
    ImageSpec {
        runtime_handler: handler.to_owned(),
        ..named(image)
    }
}

/// The folder with the unpacked files of an image.
pub(crate) async fn rootfs(client: &CriClient, spec: ImageSpec) -> PathBuf {
    let info = client.inspect(spec).await.unwrap().info;
    let info: Value = serde_json::from_str(&info["info"]).unwrap();
    PathBuf::from(info["rootfs"].as_str().unwrap())
}
