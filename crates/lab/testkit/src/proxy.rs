//! A real HTTP proxy: Debian's `squid` on a free port of the loopback address.
//!
//! It knows names of servers on this host that no resolver has, such as `registry.internal.example`. A client reaches
//! these servers through the proxy or not at all, so that a test needs no network namespace to cut the direct way off.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::process::{Process, free_port};
use crate::registry::{HASHED, PASSWORD, USERNAME};
use crate::wait::wait_until;

/// Programs of system services are not on the PATH of every user.
const PROGRAM: &str = "/usr/sbin/squid";
/// Verifies passwords for it.
const HELPER: &str = "/usr/lib/squid/basic_ncsa_auth";
/// Startup timeout.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A proxy, which stops with the test.
#[derive(Debug)]
pub struct Proxy {
    process: Process,
    folder: TempDir,
    port: u16,
    password: bool,
}

impl Proxy {
    /// A proxy that maps these names to the loopback address.
    pub async fn start(names: &[&str]) -> anyhow::Result<Self> {
        Self::start_with(names, false).await
    }

    /// A proxy that requires [`USERNAME`] and [`PASSWORD`].
    pub async fn start_with_password(names: &[&str]) -> anyhow::Result<Self> {
        Self::start_with(names, true).await
    }

    async fn start_with(names: &[&str], password: bool) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("creating a folder for a proxy")?;
        // As root, squid changes to a user of its own, which writes the log.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;
        let path = |name: &str| folder.path().join(name);
        let port = free_port()?;
        let hosts: Vec<String> = names
            .iter()
            .map(|name| format!("127.0.0.1 {name}\n"))
            .collect();
        std::fs::write(path("hosts"), hosts.concat())?;
        std::fs::write(path("passwords"), format!("{USERNAME}:{HASHED}\n"))?;
        let access = if password {
            format!(
                "auth_param basic program {HELPER} {}\n\
                 acl users proxy_auth REQUIRED\n\
                 http_access allow users\n\
                 http_access deny all\n",
                path("passwords").display()
            )
        } else {
            "http_access allow all\n".to_owned()
        };
        let config = format!(
            "http_port 127.0.0.1:{port}\n\
             hosts_file {hosts}\n\
             {access}\
             access_log stdio:{log} logformat=medley\n\
             cache_log {messages}\n\
             cache deny all\n\
             cache_mem 1 MB\n\
             coredump_dir none\n\
             dns_nameservers 127.0.0.1\n\
             dns_timeout 1 second\n\
             netdb_filename none\n\
             pid_filename none\n\
             pinger_enable off\n\
             shutdown_lifetime 0 seconds\n\
             visible_hostname proxy.test\n",
            hosts = path("hosts").display(),
            log = path("access.log").display(),
            messages = path("messages.log").display(),
        );
        // Defined before its use.
        let config = format!("logformat medley %>Hs %rm %ru\n{config}");
        std::fs::write(path("squid.conf"), config)?;
        let file = path("squid.conf");
        let arguments = [Path::new("-N"), Path::new("-f"), &file];
        let mut process = Process::start(Path::new(PROGRAM), arguments, folder.path())
            .context("the tests need squid (Debian package squid)")?;
        let listening = wait_until("a proxy that listens", START_TIMEOUT, || async move {
            Ok(TcpStream::connect(("127.0.0.1", port)).await.ok())
        });
        if let Err(error) = listening.await {
            process.check()?;
            return Err(error);
        }
        Ok(Self {
            process,
            folder,
            port,
            password,
        })
    }

    /// The value of `HTTPS_PROXY` and `HTTP_PROXY`, with the password that it requires.
    pub fn url(&self) -> String {
        let credentials = if self.password {
            format!("{USERNAME}:{PASSWORD}@")
        } else {
            String::new()
        };
        format!("http://{credentials}127.0.0.1:{}", self.port)
    }

    /// The same without the password.
    pub fn bare_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All requests so far: status, method, and URL or `host:port`. A tunnel is logged when it ends.
    pub fn requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        // Connections without a request, such as the one that waited for the proxy to listen, have status 0.
        let requests = log.lines().filter(|line| !line.starts_with("0 "));
        requests.map(str::to_owned).collect()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("access.log")
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.process.check()
    }
}
