//! Construction of a server.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::status::Status;
use tokio::sync::watch;

use crate::admission::HookSource;
use crate::allocate::Allocations;
use crate::auth::{Authenticator, Authorizer, Impersonation, SigningKey, StaticTokens};
use crate::bootstrap::bootstrap;
use crate::builtin;
use crate::custom::{self, DefinitionStrategy};
use crate::expiry;
use crate::kind::{KindInfo, Strategy};
use crate::registry::Registry;
use crate::resource::{AutoscalerView, Conversion, EventView, Identity, Resource};
use crate::rest::Context;
use crate::server::{ApiServer, State};
use crate::store::{Store, StoreError};

/// Components of a server.
pub struct Options {
    /// Store of objects.
    pub store: Store,
    /// Key of service account tokens.
    pub token_key: SigningKey,
    /// Issuer of service account tokens.
    pub issuer: String,
    /// Static tokens.
    pub tokens: StaticTokens,
    /// Host that clients use, an IP address.
    pub host: String,
    /// Port that clients use.
    pub port: u16,
    /// Whether pods need a service account and get its token, as in a cluster. Without controllers
    /// that create the accounts no pod could be created.
    pub service_accounts: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The initial objects cannot be created.
    #[error("creating the initial objects")]
    Bootstrap(#[source] Box<Status>),
    /// The roles and bindings in the store cannot be read.
    #[error("reading roles and bindings")]
    Policy(#[source] StoreError),
}

impl ApiServer {
    /// Starts a server: initial objects exist and CRDs are served when this returns. Needs a tokio
    /// runtime, on which it keeps a task for CRDs.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let resources = builtin::registry()
            .into_iter()
            .map(builtin_resource)
            .collect();
        let authenticator = Authenticator::new(&options.issuer, options.token_key, options.tokens);
        let authorizer = Authorizer::new(&options.store).map_err(StartError::Policy)?;
        let state = Arc::new(State {
            authorizer,
            impersonation: Impersonation::default(),
            store: options.store,
            registry: Registry::new(resources),
            authenticator,
            advertised: format!("{}:{}", options.host, options.port),
            service_accounts: options.service_accounts,
            allocations: Allocations::default(),
            hooks: HookSource::default(),
            stopping: watch::Sender::new(false),
        });
        let context = Context::internal(Arc::clone(&state), Timestamp::now());
        // Before CRDs and before the server is returned: no request may meet a server without its
        // roles, which would answer 403 to every user.
        bootstrap(&context, &options.host, options.port)
            .await
            .map_err(|status| StartError::Bootstrap(Box::new(status)))?;
        // Awaited: kinds of an earlier run are served from the first request on. A controller that
        // finds its CRD missing in discovery would otherwise report it as not installed.
        custom::follow(Arc::clone(&state)).await;
        expiry::follow(&state);
        Ok(Self::new(state))
    }
}

/// Upstream's key prefix of a built-in kind; error messages contain it.
fn prefix(info: &KindInfo) -> String {
    let group = info.gvk.group.as_str();
    let path = match (group, info.plural.as_str()) {
        // The historical keys of etcd, from `pkg/registry/*/storage`. They appear in error texts
        // such as those of failed UID preconditions.
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("coordination.k8s.io", "leases") => "leases".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    format!("/registry/{path}/")
}

fn builtin_resource((info, strategy): (KindInfo, Arc<dyn Strategy>)) -> Arc<Resource> {
    let group = info.gvk.group.as_str();
    let conversion: Arc<dyn Conversion> = match (group, info.gvk.kind.as_str()) {
        ("" | "events.k8s.io", "Event") => Arc::new(EventView {
            core: group.is_empty(),
        }),
        ("autoscaling", "HorizontalPodAutoscaler") => Arc::new(AutoscalerView {
            newer: info.gvk.version == "v2",
        }),
        _ => Arc::new(Identity),
    };
    let strategy: Arc<dyn Strategy> = match group {
        "apiextensions.k8s.io" => Arc::new(DefinitionStrategy(strategy)),
        _ => strategy,
    };
    Arc::new(Resource {
        prefix: prefix(&info),
        info,
        strategy,
        conversion,
        custom: None,
    })
}
