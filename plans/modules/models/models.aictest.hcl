# Tests of this module: aicplan test plans/modules/models

run "what is on file" {
  assert {
    condition     = contains(output.names, "Qwen/Qwen3-32B") && length(output.names) == length(distinct(output.names))
    error_message = "every checkpoint has one name"
  }
  assert {
    condition     = alltrue([for r in output.by_kind.attention : r.num_heads >= r.num_kv_heads])
    error_message = "a layer has no more key/value heads than query heads"
  }
  assert {
    condition     = alltrue([for r in output.by_kind.moe : r.topk <= r.num_experts])
    error_message = "a token cannot go to more experts than there are"
  }
}
