//! A node with an image service, a registry, and images in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cri::api::ImageSpec;
use cri::{Backend, Handlers, Listening, Options, Service};
use oci::{Client, Keyring, Retry, Roots, Routes, Settings};
use platform::Platform;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{CriClient, Layout, Registry, Tar, wait_until};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The platform of the node, independent of the host of the tests.
pub(crate) fn host() -> Platform {
    Platform::new("linux", "amd64")
}

/// Options of a node.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) config: Option<String>,
    pub(crate) limit: Option<u64>,
    pub(crate) backend: Option<PathBuf>,
    /// Registries without TLS.
    pub(crate) plain: Vec<String>,
    /// The retry policy of registry requests.
    pub(crate) retry: Option<Retry>,
}

/// A node. Its folder outlives the service, so that it can be started again.
pub(crate) struct Node {
    pub(crate) client: CriClient,
    pub(crate) root: PathBuf,
    pub(crate) socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl Node {
    pub(crate) fn start(folder: &Path, wishes: Wishes) -> Self {
        let root = folder.join("store");
        let socket = folder.join("cri.sock");
        let mut settings = Settings::for_user(Roots::none());
        if let Some(retry) = wishes.retry {
            settings.retry = retry;
        }
        let routes = wishes.plain.into_iter();
        let routes = routes.fold(Routes::direct(), Routes::with_plain);
        let mut handlers = match &wishes.config {
            Some(text) => Handlers::read([("test.toml", text.as_str())], &host()).unwrap(),
            None => Handlers::only(host()),
        };
        let address = |path: PathBuf| format!("unix://{}", path.display());
        let backend = wishes.backend.map(address);
        if backend.is_none() {
            handlers = handlers.or_default(&host());
        }
        let service = Service::open(Options {
            root: root.clone(),
            handlers,
            client: Client::new(settings, routes),
            keyring: Arc::new(Keyring::anonymous()),
            limit: wishes.limit,
            downloads: 4,
            backend: backend.map(|address| Backend::new(&address).unwrap()),
        })
        .unwrap();
        let listening = Listening::bind(service, &socket).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            listening.serve(stopped).await.unwrap();
        });
        Self {
            client: CriClient::new(&socket),
            root,
            socket,
            stop: Some(stop),
            served,
        }
    }

    /// Ends the service as SIGTERM does.
    pub(crate) async fn stop(mut self) {
        drop(self.client);
        drop(self.stop.take());
        self.served.await.unwrap();
        // Threads of the service may end a little after it.
        let lock = self.root.join("lock");
        wait_until("the store is free", Duration::from_secs(30), async || {
            let free = std::fs::File::open(&lock)?.try_lock();
            Ok(free.is_ok().then_some(()))
        })
        .await
        .unwrap();
    }
}

/// A registry with images, and a folder for tests.
pub(crate) struct NodeFixture {
    pub(crate) registry: Registry,
    pub(crate) folder: TempDir,
    layout: Layout,
}

impl NodeFixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&folder.path().join("layout")).unwrap();
        Self {
            registry: Registry::start().await.unwrap(),
            folder,
            layout,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A name in the registry.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.registry.host())
    }

    /// Pushes something under a name; its reference.
    pub(crate) fn push(&mut self, descriptor: &Value, name: &str) -> String {
        self.layout.name("pushed", descriptor).unwrap();
        let source = self.layout.source("pushed");
        self.registry.push(&source, name).unwrap();
        self.name(name)
    }

    /// Pushes an image for Linux on amd64 with one file; its reference.
    pub(crate) fn simple(&mut self, name: &str, content: &str) -> String {
        let image = self.image(&json!({"os": "linux", "architecture": "amd64"}), content);
        self.push(&image, name)
    }

    /// An image of a platform whose `etc/which` has this content.
    pub(crate) fn image(&self, config: &Value, content: &str) -> Value {
        let layer = Tar::new()
            .folder("etc", 0o755)
            .file("etc/which", 0o644, content)
            .finish();
        self.layout.image_of(config, &[&layer]).unwrap()
    }

    pub(crate) fn wishes(&self) -> Wishes {
        Wishes {
            plain: vec![self.registry.host()],
            ..Wishes::default()
        }
    }

    pub(crate) fn node(&self, wishes: Wishes) -> Node {
        Node::start(self.folder.path(), wishes)
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

/// An image by its name, with an annotation.
pub(crate) fn annotated(image: &str, annotations: &[(&str, &str)]) -> ImageSpec {
    let annotations = annotations.iter();
    ImageSpec {
        annotations: annotations
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..named(image)
    }
}

/// Where the files of an image are.
pub(crate) async fn rootfs(client: &CriClient, spec: ImageSpec) -> PathBuf {
    let info = client.inspect(spec).await.unwrap().info;
    let info: Value = serde_json::from_str(&info["info"]).unwrap();
    PathBuf::from(info["rootfs"].as_str().unwrap())
}

/// The file that distinguishes images.
pub(crate) async fn which(client: &CriClient, spec: ImageSpec) -> String {
    let file = rootfs(client, spec).await.join("etc/which");
    std::fs::read_to_string(file).unwrap()
}
