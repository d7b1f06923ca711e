# Server-side apply: ownership, conflicts, force, and migration from client-side apply.
. "$(dirname "$0")/lib.sh"
widgets

widget() {
    printf 'apiVersion: %s/v1\nkind: Widget\nmetadata: {name: w}\nspec: %s\n' "$GROUP" "$1"
}
widget '{size: 3, tags: [a], ports: [{port: 80, name: http}]}' > one.yaml
widget '{size: 4, tags: [b], ports: [{port: 443}]}' > two.yaml
is "widget.$GROUP/w serverside-applied" k apply --server-side --field-manager=one -f one.yaml
fails 'Apply failed with 1 conflict: conflict with "one": .spec.size' \
    k apply --server-side --field-manager=two -f two.yaml
fails 'Please review the fields above--they currently have other managers.' \
    k apply --server-side --field-manager=two -f two.yaml
is "widget.$GROUP/w serverside-applied" \
    k apply --server-side --field-manager=two --force-conflicts -f two.yaml
is '4 ["a","b"]' k get widget w -o 'jsonpath={.spec.size} {.spec.tags}'
is '80 443' field '.spec.ports[*].port' widget w
is 'one two' field '.metadata.managedFields[?(@.operation=="Apply")].manager' widget w

# A field that a manager no longer applies is removed, unless another manager owns it too.
widget '{tags: []}' > one.yaml
prints serverside-applied k apply --server-side --field-manager=one -f one.yaml
is '4 ["b"]' k get widget w -o 'jsonpath={.spec.size} {.spec.tags}'
is 443 field '.spec.ports[*].port' widget w

# An unchanged apply writes nothing.
before=$(field .metadata.resourceVersion widget w)
prints serverside-applied k apply --server-side --field-manager=one -f one.yaml
is "$before" field .metadata.resourceVersion widget w

# Dry run and diff.
widget '{size: 9}' > three.yaml
is "widget.$GROUP/w serverside-applied (server dry run)" \
    k apply --server-side --field-manager=two --dry-run=server -f three.yaml
is 4 field .spec.size widget w
code 1 k diff --server-side --field-manager=two -f three.yaml
case "$output" in *'+  size: 9'*) ;; *) broken diff "$output" ;; esac

# From client-side to server-side apply: no conflicts with kubectl's own fields.
map() {
    printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: %s\n' "$1"
}
map '{a: "1", b: "2"}' | k apply -f - >/dev/null
is 'configmap/m serverside-applied' k apply --server-side -f - <<END
$(map '{a: "3"}')
END
is '{"a":"3"}' field .data cm m
prints kubectl field '.metadata.managedFields[?(@.operation=="Apply")].manager' cm m
fails 'conflict with "kubectl": .data.a' k apply --server-side --field-manager=other -f - <<END
$(map '{a: "4"}')
END

# Schema errors.
fails '.spec.bogus: field not declared in schema' k apply --server-side --validate=ignore -f - <<END
$(widget '{bogus: 1}')
END
