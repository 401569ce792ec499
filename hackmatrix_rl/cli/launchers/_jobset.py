"""The JobSet for Kubernetes.

Sources: JobSet, "JobSet API", "Failure Policy", "TPU multislice"; Google Cloud, "Plan TPUs in GKE",
"Deploy TPU Multislices in GKE"; Kubernetes, "Handling retriable and non-retriable pod failures".
"""

from collections.abc import Mapping
from textwrap import indent

from hackmatrix_rl import system
from hackmatrix_rl.cli.launchers._empty_machine import PORT, SHARED, connected, install, start
from hackmatrix_rl.cli.launchers._job import MOST_RESTARTS, STOP, Job
from hackmatrix_rl.system.errors import in_shell

# The accelerators in GKE.
_ACCELERATORS: Mapping[str, str] = {
    "v4": "tpu-v4-podslice",
    "v5e": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
    "tpu7x": "tpu7x",
    "h100": "nvidia-h100-80gb",
    "h200": "nvidia-h200-141gb",
    "a100": "nvidia-a100-80gb",
    "l4": "nvidia-l4",
}

_MANIFEST = """\
# {aim}
#   kubectl create configmap hackmatrix-rl {given}
#   kubectl apply -f {file}
{more}\
# Needs JobSet in the cluster. It starts the pods again, unless their exit status needs a person.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
  start.sh: |
    set -euo pipefail
{script}\
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {name}
{annotations}\
spec:
{policy}\
  replicatedJobs:
  - name: train
    replicas: {replicas}
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        completionMode: Indexed
{retries}\
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 120  # time to save
{network}\
            nodeSelector:
{selector}\
            containers:
            - name: train
              image: python:3.12
              command: [bash, /script/start.sh]
              envFrom:
              - configMapRef:
                  name: hackmatrix-rl
              - secretRef:
                  name: hackmatrix-rl
                  optional: true
              ports:
              - containerPort: {port}
              resources:
                limits:
                  {resource}: {devices}
              volumeMounts:
              - name: script
                mountPath: /script
{mount}\
            volumes:
            - name: script
              configMap:
                name: {name}
{claim}\
"""
_TOGETHER = """\
  failurePolicy:
    maxRestarts: {most}
    rules:
    - name: needs-a-person
      action: FailJobSet
      onJobFailureReasons: [PodFailurePolicy]
"""
# All pods of a training restart together.
_TRAINING = """\
        backoffLimit: 0
        podFailurePolicy:
          rules:
          - action: FailJob
            onExitCodes:
              containerName: train
              operator: In
              values: [{stop}]
"""
# Each worker of a sweep restarts alone.
_WORKER = """\
        backoffLimitPerIndex: {most}
        podFailurePolicy:
          rules:
          - action: Ignore
            onPodConditions:
            - type: DisruptionTarget
              status: "True"
          - action: FailIndex
            onExitCodes:
              containerName: train
              operator: In
              values: [{stop}]
"""
_EXCLUSIVE = """\
  annotations:
    alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool
"""
_HOST_NETWORK = """\
            hostNetwork: true
            dnsPolicy: ClusterFirstWithHostNet
"""
_MOUNT = f"""\
              - name: shared
                mountPath: {SHARED}
"""
_CLAIM = """\
            - name: shared
              persistentVolumeClaim:
                claimName: hackmatrix-rl
"""


def can(machines: "system.Machines") -> bool:
    """Whether a JobSet can start a training on these machines.

    GKE connects several slices only if they have several hosts each.
    """
    joined = machines.slices == 1 or machines.hosts > machines.slices
    return machines.kind in _ACCELERATORS and joined


def render(job: Job, file: str) -> str:
    there, array = job.machines, job.workers is not None
    gpu = there.gpus
    given = ["PACKAGE=git+https://HOST/hackmatrix-rl"]
    if not array and job.checkpoint_dir is None:
        given.append("CHECKPOINTS=gs://BUCKET/NAME")
    more = ["hackmatrix-rl is a volume claim that all pods may write (ReadWriteMany)."] * array
    more += [
        "kubectl create secret generic hackmatrix-rl --from-literal=WANDB_API_KEY=..."
    ] * job.wandb
    selector = (
        {"cloud.google.com/gke-accelerator": _ACCELERATORS[there.kind]}
        if gpu
        else {
            "cloud.google.com/gke-tpu-accelerator": _ACCELERATORS[there.kind],
            "cloud.google.com/gke-tpu-topology": there.topology,
        }
    )
    # The hosts of TPU slices discover each other.
    several = gpu and there.hosts > 1
    head = f"{job.name}-train-0-0.{job.name}"
    processes = connected(head, str(there.hosts), "$JOB_COMPLETION_INDEX") if several else ""
    decided, command = start(job, processes)
    script = f"{install(job)}{decided}exec {command}\n"
    return _MANIFEST.format(
        aim=job.aim,
        given=" ".join(f"--from-literal={each}" for each in given),
        file=in_shell(file),
        more="".join(f"# {each}\n" for each in more),
        name=job.name,
        script=indent(script, "    "),
        annotations="" if gpu else _EXCLUSIVE,
        policy="" if array else _TOGETHER.format(most=MOST_RESTARTS),
        replicas=there.slices,
        pods=there.hosts // there.slices if job.workers is None else job.workers,
        retries=(_WORKER if array else _TRAINING).format(
            stop=", ".join(map(str, STOP)), most=MOST_RESTARTS
        ),
        network=_HOST_NETWORK if there.slices > 1 else "",
        selector="".join(f"              {name}: {value}\n" for name, value in selector.items()),
        port=PORT,
        resource="nvidia.com/gpu" if gpu else "google.com/tpu",
        devices=there.per_host,
        mount=_MOUNT if array else "",
        claim=_CLAIM if array else "",
    )
