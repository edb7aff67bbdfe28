locals {
  grids = merge(
    { for method, g in grid.nccl : "nccl_${method}" => g },
    # Across nodes, this grid has no cases.
    { for _, g in grid.p2p : "p2p" => g if var.nodes == 1 },
  )
  # The table nccl_perf has the collectives as serving replays them, unless only the other method was asked for.
  graph  = contains(var.methods, "graph")
  main   = [local.graph ? "nccl_graph" : "nccl_eager"]
  files  = { nccl_eager = local.graph ? "nccl_eager_perf" : "nccl_perf", nccl_graph = "nccl_perf", p2p = "p2p" }
  groups = { nccl_eager = ["num_gpus", "op_name"], nccl_graph = ["num_gpus", "op_name"], p2p = ["src", "dst"] }
}

preflight "node" {
  runtime  = var.runtime
  system   = var.system
  executor = var.executor

  check "libraries" {}
  check "gpus" { min = min(local.node_gpus, max(var.gpus...)) }
  check "exclusive" {}
  check "mig" {}
  check "shm" { min_gb = 1 }
  check "clocks" { on_fail = "warn" }
}

collect "table" {
  for_each   = local.grids
  grid       = each.value
  runtime    = var.runtime
  system     = var.system
  executor   = var.executor
  depends_on = [preflight.node]

  # Small messages scatter by some percent from visit to visit, so that two
  # passes more are better than many samples in one.
  measure {
    min_samples      = 3
    max_samples      = 5
    target_rel_stdev = 0.01
    passes           = each.key == "nccl_graph" ? 4 : 2
    max_passes       = each.key == "nccl_graph" ? 8 : 4
    pass_tolerance   = 0.02
    max_pass_seconds = 0.1
  }

  breaker { group_by = local.groups[each.key] }
}

dedupe "table" {
  for_each = collect.table
  input    = each.value
}

gate "table" {
  for_each = dedupe.table
  input    = each.value

  check "coverage" { min = var.coverage }
  check "limits" {}
  check "duplicates" { max = 0 }
  check "rows" {
    name      = "noise"
    condition = rel_stdev <= 0.25
    max_share = 0.05
    severity  = "warn"
  }
}

export "table" {
  for_each = gate.table
  input    = each.value
  file     = var.layout == "flat" || !contains(local.main, each.key) ? "${local.files[each.key]}.txt" : null
  layout   = contains(local.main, each.key) ? var.layout : "flat"
  system   = var.system
}

output "files" { value = { for table, e in export.table : table => e.path } } # the exported files
