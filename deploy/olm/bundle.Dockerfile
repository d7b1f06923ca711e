# Written by `cargo xtask generate`; edit crates/interfaces/manifests instead.
FROM scratch

LABEL com.redhat.openshift.versions=v4.17
LABEL operators.operatorframework.io.bundle.channel.default.v1=alpha
LABEL operators.operatorframework.io.bundle.channels.v1=alpha
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=medley

COPY manifests /manifests/
COPY metadata /metadata/
