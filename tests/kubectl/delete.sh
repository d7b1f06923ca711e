# Deleting: propagation, finalizers, selectors, waiting.
. "$(dirname "$0")/lib.sh"

for name in a b c d e; do
    k create configmap $name >/dev/null
    k label configmap $name set=all >/dev/null
done
gone() { "$@" | sed "s/ from $NAMESPACE namespace//"; }
is 'configmap "a" deleted' gone k delete configmap a
fails 'Error from server (NotFound): configmaps "a" not found' k delete configmap a
is '' k delete configmap a --ignore-not-found
is 'configmap "b" deleted' gone k delete cm b --cascade=background --now
is 'configmap "c" deleted (server dry run)' gone k delete cm c --dry-run=server
is configmap/c k get cm c -o name

# Finalizers keep an object until they are removed.
k patch cm c --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}' >/dev/null
is 'configmap "c" deleted' gone k delete cm c --wait=false
like '2[0-9]{3}-.*Z' field .metadata.deletionTimestamp cm c
fails 'timed out waiting for the condition' k delete cm c --timeout=1s
k patch cm c --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]' >/dev/null
fails 'NotFound' k get cm c

# Foreground and orphan deletion set finalizers for the garbage collector.
k create deployment web --image=nginx >/dev/null
k delete deployment web --cascade=foreground --wait=false >/dev/null
is '["foregroundDeletion"]' field .metadata.finalizers deploy web
k patch deployment web --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null
fails NotFound k get deployment web
k create deployment web --image=nginx >/dev/null
k delete deployment web --cascade=orphan --wait=false >/dev/null
is '["orphan"]' field .metadata.finalizers deploy web
k patch deployment web --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null

# Many objects at once.
is 'configmap "d" deleted
configmap "e" deleted' gone k delete cm -l set=all
is "No resources found" k delete cm -l set=all
k create configmap x >/dev/null
prints 'configmap "x" deleted' gone k delete cm --all
is "No resources found in $NAMESPACE namespace." k get cm --field-selector metadata.name=x

# System namespaces cannot be deleted.
fails 'namespaces "default" is forbidden: this namespace may not be deleted' k delete namespace default
k create namespace "$NAMESPACE-gone" >/dev/null
is "namespace \"$NAMESPACE-gone\" deleted" "$KUBECTL" delete namespace "$NAMESPACE-gone" --wait=false
is Terminating field .status.phase namespace "$NAMESPACE-gone"
fails "because it is being terminated" "$KUBECTL" create configmap late -n "$NAMESPACE-gone"
