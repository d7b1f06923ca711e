# Client-side apply and diff.
. "$(dirname "$0")/lib.sh"
widgets

cat > app.yaml <<END
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {app: demo}
data:
  one: "1"
  two: "2"
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: nginx:1
        ports: [{containerPort: 80}]
      - name: side
        image: busybox
---
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 3, tags: [a, b]}
END
code 1 k diff -f app.yaml
case "$output" in *'+  one: "1"'*) ;; *) broken diff "$output" ;; esac
is "configmap/settings created
deployment.apps/web created
widget.$GROUP/w created" k apply -f app.yaml
is "configmap/settings unchanged
deployment.apps/web unchanged
widget.$GROUP/w unchanged" k apply -f app.yaml
is '' k diff -f app.yaml
prints '"one":"1"' field '.metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration' cm settings

# Removed fields are deleted, list items merge by key, fields of other managers stay.
k label configmap settings other=kept >/dev/null
k scale deployment web --replicas=5 >/dev/null
sed -e '/two: "2"/d' -e 's/nginx:1/nginx:2/' -e '/replicas: 2/d' -e '/name: side/,/busybox/d' -e 's/size: 3/size: 4/' app.yaml > new.yaml
code 1 k diff -f new.yaml
for line in '-  two: "2"' '-      - image: busybox' '+  size: 4'; do
    case "$output" in *"$line"*) ;; *) broken "diff shows $line" "$output" ;; esac
done
is "configmap/settings configured
deployment.apps/web configured
widget.$GROUP/w configured" k apply -f new.yaml
is '{"one":"1"}' field .data cm settings
is kept field .metadata.labels.other cm settings
is 'nginx:2' field '.spec.template.spec.containers[*].image' deploy web
is 1 field .spec.replicas deploy web
is 4 field .spec.size widget w
prints 'kubectl-client-side-apply' field '.metadata.managedFields[*].manager' cm settings

# Dry runs change nothing.
is 'configmap/settings configured (server dry run)' k apply -f - --dry-run=server <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {one: other}
END
is '{"one":"1"}' field .data cm settings
is 'configmap/fresh created (server dry run)' k create configmap fresh --dry-run=server
fails 'NotFound' k get cm fresh

# Strict validation before anything is sent, and on the server.
fails 'unknown field "dta"' k apply -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
dta: {one: other}
END
fails 'unknown field "spec.bogus"' k apply -f - <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {bogus: 1}
END
fails 'spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1' k apply -f - <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 0}
END
fails 'spec: Invalid value: too large' k apply -f - <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 100}
END

# set-last-applied, view-last-applied.
prints 'one: "1"' k apply view-last-applied configmap/settings
is 'configmap/settings unchanged' k apply -f - <<END
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {app: demo}
data:
  one: "1"
END

# Pruning by label.
k apply -f app.yaml -l app=demo >/dev/null
