//! Outbound connections of all clients: to API servers, registries, web servers and collectors.
//!
//! ```text
//! URL --ProxySettings--> direct:  name --resolve--> addresses --AddressPolicy--> TCP
//!                        proxied: literal address --AddressPolicy--> TCP to the proxy --> CONNECT, or forwarding
//! ```
//!
//! [`ProxySettings`] decides which proxy a URL is reached through, as programs written in Go do (kubectl, oc, CDI):
//! one environment has the same effect on all of them. [`Connector`] applies the decision; HTTP clients are built on it.
//!
//! Credentials in the URL of a proxy appear in no message and no `Debug` output.

mod connector;
mod settings;

pub use connector::{Connector, EgressError, EgressStream};
pub use settings::{Proxy, ProxyError, ProxyScheme, ProxySettings};
