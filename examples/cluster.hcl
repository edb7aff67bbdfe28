# Jobs of Slurm in containers, and collectives whose ranks another launcher starts.

executor "cluster" {
  kind          = "slurm"
  account       = "m1234"
  time          = "01:00:00"
  tasks         = 16
  parallel      = 4      # at the same time
  attempts      = 5      # submissions without a new row
  drain         = "300s" # before the time limit
  gpus_per_node = 8
  memory        = "64G"
  options       = { exclusive = "" }

  container {
    kind   = "pyxis"
    image  = "nvcr.io#nvidia/pytorch:25.10-py3"
    mounts = ["/data:/data"]
  }
}

runtime "ranks" {
  kind          = "nccl"
  framework     = "NCCL"
  nodes         = 2
  gpus_per_node = 8
  method        = "eager"
  rank_launcher = ["mpirun", "-np", "{ranks}", "-N", "{gpus_per_node}"]
}

runtime "ops" {
  kind          = "python"
  framework     = "TORCH"
  package       = "torch"
  path          = ["ops.py"]
  workdir       = "/tmp/collector"
  starts_within = "10m"
  recycle_after = 500
  window        = 8
}

runtime "processor" {
  kind      = "cpu"
  framework = "CPU"
  window    = 16
}

grid "steps" {
  op = "gemm"
  axis "gemm_dtype" { values = ["float32"] }
  axis "m" { values = [16, 32] }
  axis "n" { values = [16] }
  axis "k" { values = [16] }
}

collect "steps" {
  grid     = grid.steps
  runtime  = runtime.processor
  executor = executor.cluster
}
