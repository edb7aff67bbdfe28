# Mistakes in the rows of this folder, found when a plan is read. A format that no
# table knows would plan no case at all.

locals {
  # As readers of the moe tables know them.
  expert_dtypes = ["bfloat16", "fp8", "int4_wo", "fp8_block", "w4afp8", "nvfp4", "nvfp4_wo", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8"]

  wrong_dtypes = flatten([for r in local.moe : [for d in distinct(flatten(values(r.dtypes))) : {
    model = r.model_name
    dtype = d
    meant = did_you_mean(d, local.expert_dtypes)
  } if !contains(local.expert_dtypes, d)]])
}

variable "sound" {
  type        = bool
  default     = true
  description = "False plans rows although they have mistakes."

  validation {
    condition = !var.sound || length(local.wrong_dtypes) == 0
    error_message = join(" ", [for w in local.wrong_dtypes :
      "The moe row of ${w.model} has the format ${w.dtype}, which no table knows.${w.meant == "" ? "" : " Did you mean ${w.meant}?"}"
    ])
  }
}
