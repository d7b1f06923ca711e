//! Requests that tenants make the operator send: registries and web servers only, no inner addresses, no local files.
