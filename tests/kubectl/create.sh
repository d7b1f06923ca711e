# Creating: the generators of kubectl (they send protobuf), files, generated names.
. "$(dirname "$0")/lib.sh"

is 'configmap/m created' k create configmap m --from-literal=a=1
is 'secret/s created' k create secret generic s --from-literal=p=q
is cQ== field .data.p secret s
is Opaque field .type secret s
is 'secret/r created' k create secret docker-registry r --docker-server=example.com --docker-username=u --docker-password=p
is 'kubernetes.io/dockerconfigjson' field .type secret r
is "namespace/$NAMESPACE-b created" k create namespace "$NAMESPACE-b"
is Active field .status.phase namespace "$NAMESPACE-b"
is "$NAMESPACE-b" field '.metadata.labels.kubernetes\.io/metadata\.name' namespace "$NAMESPACE-b"
is 'serviceaccount/robot created' k create serviceaccount robot
like '[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' k create token robot
like '[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' k create token robot --duration=20m --audience=x
is 'role.rbac.authorization.k8s.io/reader created' k create role reader --verb=get,list --resource=configmaps
is '[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]}]' field .rules role reader
is 'rolebinding.rbac.authorization.k8s.io/read created' k create rolebinding read --role=reader --serviceaccount="$NAMESPACE:robot"
is "clusterrole.rbac.authorization.k8s.io/$NAMESPACE created" k create clusterrole "$NAMESPACE" --verb=get --non-resource-url=/logs
is "clusterrolebinding.rbac.authorization.k8s.io/$NAMESPACE created" k create clusterrolebinding "$NAMESPACE" --clusterrole="$NAMESPACE" --user=someone
is 'deployment.apps/web created' k create deployment web --image=nginx --replicas=2 --port=80
is '2 RollingUpdate nginx' k get deploy web -o 'jsonpath={.spec.replicas} {.spec.strategy.type} {.spec.template.spec.containers[0].name}'
is 'job.batch/once created' k create job once --image=busybox -- true
is '6 Never' k get job once -o 'jsonpath={.spec.backoffLimit} {.spec.template.spec.restartPolicy}'
is 'cronjob.batch/often created' k create cronjob often --image=busybox --schedule='*/5 * * * *'
is 'job.batch/now created' k create job now --from=cronjob/often
is often field '.metadata.ownerReferences[0].name' job now
is 'service/web created' k create service clusterip web --tcp=80:8080
like '10\.0\.0\.[0-9]+' field .spec.clusterIP service web
is 'service/outside created' k create service nodeport outside --tcp=80
like '3[0-2][0-9]{3}' field '.spec.ports[0].nodePort' service outside
is 'service/elsewhere created' k create service externalname elsewhere --external-name=example.com
is 'poddisruptionbudget.policy/few created' k create poddisruptionbudget few --selector=app=web --min-available=1
is 'resourcequota/limit created' k create quota limit --hard=configmaps=1000
is "priorityclass.scheduling.k8s.io/$NAMESPACE created" k create priorityclass "$NAMESPACE" --value=10
is 'ingress.networking.k8s.io/in created' k create ingress in --rule='example.com/=web:80'
is 'pod/p created' k run p --image=nginx --labels=app=p
is 'Pending Always' k get pod p -o 'jsonpath={.status.phase} {.spec.restartPolicy}'
is 'service/web2 exposed' k expose deployment web --name=web2 --port=80

# Generated names.
like 'configmap/gen-[bcdfghjklmnpqrstvwxz2456789]{5} created' k create -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {generateName: gen-}
END

# Lists, JSON, several documents.
is 'configmap/l1 created
configmap/l2 created' k create -f - <<END
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l1"}},
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l2"}}]}
END

# Errors as on any cluster.
fails 'error: failed to create configmap: configmaps "m" already exists' k create configmap m
fails 'error: failed to create configmap: namespaces "zz" not found' "$KUBECTL" create configmap m -n zz
fails 'Invalid value: "Not_Valid": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters' k create configmap Not_Valid
fails 'metadata.name: Required value: name or generateName is required' k create -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {labels: {a: b}}
END
fails 'no matches for kind "Nonsense" in version "v1"' k create -f - <<END
apiVersion: v1
kind: Nonsense
metadata: {name: nn}
END
fails 'strict decoding error: unknown field "bogus"' k create -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: nn}
bogus: 1
END
fails 'cannot unmarshal number into Go struct field ConfigMap.data of type string' k create --validate=ignore -f - <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: nn}
data: {a: 1}
END
fails 'spec.template.spec.containers: Required value' k create -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: nn}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {}}
END
