# What is planned, for the module and for plans of it.

variable "models" {
  type        = list(object({ hidden_size = number, num_topk = number, num_experts = number }))
  default     = [{ hidden_size = 7168, num_topk = 8, num_experts = 256 }, { hidden_size = 4096, num_topk = 8, num_experts = 128 }]
  description = "What is dispatched and combined. Redundant experts count as experts: DeepSeek-V3 with 32 of them has 288."

  validation {
    condition     = length(var.models) > 0 && alltrue([for m in var.models : m.hidden_size > 0 && m.hidden_size % 128 == 0 && m.num_topk >= 1 && m.num_topk <= m.num_experts && m.num_topk == floor(m.num_topk) && m.num_experts == floor(m.num_experts)])
    error_message = "a model has a hidden_size that 128 divides, as DeepEP's kernels need, and num_topk from 1 to num_experts"
  }
}

variable "distributions" {
  type        = map(list(string))
  default     = { context = ["uniform", "power_law_0.8"], generation = ["uniform", "power_law_0.8", "power_law_1.01"] }
  description = "How tokens choose experts in the tables of the experts, by phase: uniform, or power_law_ALPHA. The tables of dispatch and combine have no such column."

  validation {
    condition     = length(setsubtract(toset(["context", "generation"]), toset(keys(var.distributions)))) == 0 && alltrue([for d in flatten(values(var.distributions)) : d == "uniform" || can(regex("^power_law_[0-9]+(\\.[0-9]+)?$", d))])
    error_message = "distributions has lists for context and generation, of uniform and power_law_ALPHA, such as power_law_1.2"
  }
}

variable "throughput" {
  type        = object({ gpus_per_node = number, nodes = list(number) })
  default     = { gpus_per_node = 8, nodes = [2, 3, 4, 6, 8, 12, 16, 18, 20] }
  description = "What DeepEP's throughput kernels are compiled for across nodes: NUM_MAX_NVL_PEERS, and the numbers of nodes in launch.cuh; older versions lack 6 and 12. On one node it is 2, 4 or 8 GPUs. The low-latency kernels have no such limit."
}

variable "gpus_per_node" {
  default = 8

  validation {
    condition     = var.gpus_per_node >= 1 && var.gpus_per_node == floor(var.gpus_per_node)
    error_message = "gpus_per_node is a whole number from 1"
  }
}

variable "ops" {
  type        = list(string)
  default     = []
  description = "Ops to plan: attention, mlp, moe, deepep_ll, deepep_normal, moe_a2a; none means all."
}
