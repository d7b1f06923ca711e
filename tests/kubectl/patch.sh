# Changing objects: patches of all types, labels, annotations, images, replicas, replace, edit.
. "$(dirname "$0")/lib.sh"
widgets

k create configmap m --from-literal=a=1 --from-literal=b=2 >/dev/null
is 'configmap/m patched' k patch cm m --type=merge -p '{"data":{"a":null,"c":"3"}}'
is '{"b":"2","c":"3"}' field .data cm m
is 'configmap/m patched (no change)' k patch cm m --type=merge -p '{"data":{"c":"3"}}'
is 'configmap/m patched' k patch cm m --type=json -p '[{"op":"test","path":"/data/b","value":"2"},{"op":"move","from":"/data/b","path":"/data/d"}]'
is '{"c":"3","d":"2"}' field .data cm m
fails 'The request is invalid: the server rejected our request due to an error in our request' \
    k patch cm m --type=json -p '[{"op":"test","path":"/data/d","value":"9"}]'
fails 'The request is invalid' k patch cm m --type=json -p '[{"op":"remove","path":"/data/zz"}]'
fails 'Error from server (NotFound): configmaps "zz" not found' k patch cm zz -p '{}'

k create deployment web --image=nginx >/dev/null
is 'deployment.apps/web patched' k patch deployment web -p \
    '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}'
is 'side nginx' field '.spec.template.spec.containers[*].name' deploy web
is 'deployment.apps/web patched' k patch deployment web -p \
    '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'
is nginx field '.spec.template.spec.containers[*].name' deploy web
is 'deployment.apps/web image updated' k set image deployment/web nginx=nginx:2
is nginx:2 field '.spec.template.spec.containers[0].image' deploy web
is 'deployment.apps/web env updated' k set env deployment/web A=1
is 1 field '.spec.template.spec.containers[0].env[0].value' deploy web
prints 'deployment.apps/web resource requirements updated' \
    k set resources deployment/web --limits=cpu=200m,memory=64Mi
is 200m field '.spec.template.spec.containers[0].resources.limits.cpu' deploy web

# Custom resources do not support strategic merge patches.
k apply -f - >/dev/null <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
END
is "widget.$GROUP/w patched" k patch widget w --type=merge -p '{"spec":{"size":5}}'
is 2 field .metadata.generation widget w
fails 'the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml' \
    k patch widget w --type=strategic -p '{"spec":{"size":6}}'
is "widget.$GROUP/w patched" k patch widget w --subresource=status --type=merge -p '{"status":{"phase":"Ready"},"spec":{"size":7}}'
is '5 Ready' k get widget w -o 'jsonpath={.spec.size} {.status.phase}'
is 2 field .metadata.generation widget w
fails 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"' \
    k patch widget w --type=merge -p '{"spec":{"size":"x"}}'

# Labels and annotations.
is 'configmap/m labeled' k label cm m tier=front
fails "'tier' already has a value (front), and --overwrite is false" k label cm m tier=back
is 'configmap/m labeled' k label cm m tier=back --overwrite
is 'configmap/m unlabeled' k label cm m tier-
is '' field .metadata.labels cm m
is 'configmap/m annotated' k annotate cm m note='some text'
is 'some text' field .metadata.annotations.note cm m
fails 'a valid label must be an empty string or consist of alphanumeric characters' k label cm m tier='not/valid'

# Scale.
is 'deployment.apps/web scaled' k scale deployment web --replicas=3
is 3 field .spec.replicas deploy web
fails 'Expected replicas to be 9, was 3' k scale deployment web --replicas=4 --current-replicas=9
is "widget.$GROUP/w scaled" k scale widget w --replicas=2
is 2 field .spec.replicas widget w
fails 'deployments.apps "zz" not found' k scale deployment zz --replicas=1

# Replace.
k get cm m -o yaml | sed 's/c: "3"/c: "4"/' > m.yaml
is 'configmap/m replaced' k replace -f m.yaml
is 4 field .data.c cm m
fails 'the object has been modified; please apply your changes to the latest version and try again' k replace -f m.yaml
is 'configmap "m" deleted
configmap/m replaced' sh -c "sed '/resourceVersion\|uid/d' m.yaml | '$KUBECTL' -n '$NAMESPACE' replace --force -f - | sed 's/ from .*//'"
fails 'Error from server (NotFound): error when replacing "STDIN": configmaps "fresh" not found' k replace -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: fresh}
END

# Edit, with a script as the editor.
printf '#!/bin/sh\nsed -i "s/c: .*/c: edited/" "$1"\n' > editor
chmod +x editor
EDITOR=$PWD/editor is 'configmap/m edited' k edit cm m
is edited field .data.c cm m
EDITOR=true is 'Edit cancelled, no changes made.' k edit cm m
printf '#!/bin/sh\nsed -i "s/size: 5/size: 6/" "$1"\n' > editor
EDITOR=$PWD/editor is "widget.$GROUP/w edited" k edit widget w
is 6 field .spec.size widget w

# rollout without controllers.
prints 'deployment.apps/web' k rollout history deployment/web
is 'deployment.apps/web paused' k rollout pause deployment/web
is true field .spec.paused deploy web
is 'deployment.apps/web resumed' k rollout resume deployment/web
is 'deployment.apps/web restarted' k rollout restart deployment/web
prints T field '.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt' deploy web
