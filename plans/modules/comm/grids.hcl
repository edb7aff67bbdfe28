locals {
  # nccl-tests' sizes: doubled from 512 B to 512 MiB.
  bytes = [for p in range(9, 30) : pow(2, p)]

  node_gpus = coalesce(var.per_node, var.system.node.num_gpus_per_node)
  all_gpus  = var.nodes * local.node_gpus
}

# One collective on one number of GPUs. The table counts elements.
grid "nccl" {
  for_each    = contains(var.tables, "nccl") ? toset(var.methods) : toset([])
  description = "NCCL's collectives, timed by the ${each.key} method"
  perf_table  = "nccl_perf"
  columns     = ["op_name", "nccl_dtype", "num_gpus", "message_size", "method"]

  axis "num_gpus" { values = var.gpus }
  axis "op_name" { values = ["all_gather", "alltoall", "reduce_scatter", "all_reduce"] }
  rows "type" { values = [{ nccl_dtype = "half", element_bytes = 2 }, { nccl_dtype = "int8", element_bytes = 1 }] }
  axis "bytes" { values = local.bytes }
  axis "method" { values = [each.key] }
  derive "message_size" { value = bytes / element_bytes }

  filter "one_node" {
    keep   = num_gpus <= local.all_gpus
    reason = var.nodes == 1 ? "a node of this system has fewer GPUs" : "the nodes have fewer GPUs together"
  }
}

# Copies from every GPU to every other one.
grid "p2p" {
  for_each    = contains(var.tables, "p2p") ? toset(["all"]) : toset([])
  description = "bandwidth and latency of copies between peers, and the paths they take"

  axis "src" { values = range(max(var.gpus...)) }
  axis "dst" { values = range(max(var.gpus...)) }
  axis "bytes" { values = [256, 65536, 1048576, 16777216, 268435456] }
  axis "direction" { values = ["one_way", "both_ways"] }

  filter "two_gpus" {
    keep   = src != dst
    reason = "a copy goes from one GPU to another"
  }
  filter "one_node" {
    keep   = src < local.node_gpus && dst < local.node_gpus
    reason = "a node of this system has fewer GPUs"
  }
  filter "across_nodes" {
    keep   = var.nodes == 1
    reason = "copies between peers are unsupported across nodes"
  }
}
