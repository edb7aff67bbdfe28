# Mistakes in the rows of this folder, found when a plan is read. A format that no table knows would plan no case at
# all, and a misspelt field would be an error where outputs.hcl reads it, far from its row.

locals {
  # Beside rows, a family may say these for all of them.
  family_fields = ["architecture", "wide_ep", "cases"]

  row_fields = {
    attention   = { needs = ["profile", "models", "num_heads", "num_kv_heads", "head_dim", "window", "tp"], may = ["v_head_dim", "chunk", "sink", "scaling", "only"] }
    moe         = { needs = ["model_name", "hidden_size", "inter_size", "topk", "num_experts", "dtypes"], may = ["models", "max_tp", "wide_ep", "router"] }
    mla         = { needs = ["model", "num_heads"], may = ["models", "architecture"] }
    dsa         = { needs = ["model", "num_heads", "gemm_type", "max_position", "shares_index"], may = ["models", "architecture"] }
    dsv4        = { needs = ["model", "num_heads", "hidden_size", "max_position"], may = ["models", "architecture"] }
    msa         = { needs = ["model", "num_heads", "max_position"], may = ["models", "architecture"] }
    mhc         = { needs = ["model", "hidden_size", "hc_mult"], may = ["models", "architecture"] }
    gdn         = { needs = ["model_name", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "tp"], may = ["models", "architecture", "shared_expert"] }
    kda         = { needs = ["model_name", "d_model", "d_conv", "num_heads", "head_dim", "tp"], may = ["models", "architecture"] }
    mamba2      = { needs = ["model_name", "d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size"], may = ["models", "architecture"] }
    encoder     = { needs = ["profile", "models", "num_heads", "head_dim", "tp"], may = ["architecture"] }
    projections = { needs = ["model", "hidden_size", "inter_size", "num_heads", "num_kv_heads", "head_dim", "vocab_size"], may = ["models", "architecture"] }
    widths      = { needs = ["model", "n", "k"], may = ["models"] }
  }

  known_fields = { for kind, f in local.row_fields : kind => concat(f.needs, f.may, ["cases"]) }
  row_kinds    = keys(local.row_fields)
  family_words = concat(local.row_kinds, local.family_fields)

  # Each row is looked at only where a look at all together finds something: rows of
  # its kind with other fields, or anywhere a text that begins as numbers do.
  field_sets = toset(flatten([for f in local.families : [for kind, rows in f : [for r in rows : join(" ", concat([kind], keys(r)))] if contains(local.row_kinds, kind)]]))

  odd_kinds = can(regex(":\"[-+.0-9iI]", jsonencode(local.families))) ? local.row_kinds : [
    for s in [for s in local.field_sets : { kind = split(" ", s)[0], fields = slice(split(" ", s), 1, length(split(" ", s))) }] : s.kind
    if length(setsubtract(s.fields, local.known_fields[s.kind])) + length(setsubtract(local.row_fields[s.kind].needs, s.fields)) > 0
  ]

  checked_rows = flatten([for f in local.families : [for kind, rows in f : [for r in rows : {
    name    = try(r.profile, r.model_name, r.model, "no name")
    kind    = kind
    knows   = local.known_fields[kind]
    unknown = setsubtract(keys(r), local.known_fields[kind])
    missing = setsubtract(local.row_fields[kind].needs, keys(r))
    texts   = [for k, v in r : k if try(v != tonumber(v), false)]
  }] if contains(local.odd_kinds, kind)]])

  # Backends look up attributes of attention by profile.
  profiles = flatten([for f in local.families : [for r in try(f.attention, []) : try([r.profile], [])]])

  # A misspelt field is told once, as the misspelling.
  wrong_rows = concat(
    flatten([for f in local.families : [for k in keys(f) :
      "A family has ${k}, which is no kind of rows. The kinds are ${join(", ", local.row_kinds)}."
      if !contains(local.family_words, k)
    ]]),
    flatten([for c in local.checked_rows : [for k in c.unknown :
      "The ${c.kind} row of ${c.name} has the field ${k}, which its kind does not have.${did_you_mean(k, c.knows) == "" ? "" : " Did you mean ${did_you_mean(k, c.knows)}?"}"
    ]]),
    flatten([for c in local.checked_rows : [for k in c.missing : "The ${c.kind} row of ${c.name} has no ${k}."] if length(c.unknown) == 0]),
    flatten([for c in local.checked_rows : [for k in c.texts : "The ${c.kind} row of ${c.name} has ${k} as a text; write the number without quotes."]]),
    distinct([for i, p in local.profiles : "Several attention rows have the profile ${p}; give each row a profile of its own." if contains(slice(local.profiles, 0, i), p)]),
  )
}

locals {
  # As readers of the moe tables know them.
  expert_dtypes = ["bfloat16", "fp8", "int4_wo", "fp8_block", "w4afp8", "nvfp4", "nvfp4_wo", "w4a16_mxfp4", "w4a8_mxfp4_mxfp8", "w4a8_mxfp4_mxfp8_trtllm", "w4a16_mxfp4_cutlass", "w4a16_mxfp4_humming", "w4a16_nvfp4"]

  wrong_dtypes = flatten([for r in local.moe : [for d in distinct(flatten(values(r.dtypes))) : {
    model = r.model_name
    dtype = d
    meant = did_you_mean(d, local.expert_dtypes)
  } if !contains(local.expert_dtypes, d)]])
}

variable "sound" {
  default     = true
  description = "False plans rows although they have formats that no table knows."

  validation {
    condition = length(local.wrong_rows) == 0 && (!var.sound || length(local.wrong_dtypes) == 0)
    error_message = join(" ", concat(local.wrong_rows, [for w in local.wrong_dtypes :
      "The moe row of ${w.model} has the format ${w.dtype}, which no table knows.${w.meant == "" ? "" : " Did you mean ${w.meant}?"}"
    ]))
  }
}
