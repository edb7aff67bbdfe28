# Each pattern in which load reaches a server, in its smallest form. Copy the collect
# that you need into a plan such as serving.hcl, and use your own numbers.
#
#     aicplan mock-server --listen 127.0.0.1:8000 --ttft 50ms --itl 5ms
#     aicplan apply plans/load_patterns.hcl

variable "url" { default = "localhost:8000" } # the server
variable "model" { default = "mock" }         # its model

runtime "server" {
  kind          = "endpoint"
  url           = var.url
  model         = var.model
  endpoint_type = "chat"
  endpoint      = "/v1/chat/completions"
  headers       = { X-Team = "serving" }
  require_done  = true
}

grid "point" {
  description = "one load point"
  op          = "load"
  axis "isl" { values = [20] }
  axis "osl" { values = [4] }
}

grid "prompts" {
  description = "prompts of a file, which have their own lengths"
  op          = "load"
  axis "osl" { values = [4] }
}

# Two adapters of one model on one or more servers.
runtime "servers" {
  kind        = "endpoint"
  urls        = [var.url]
  url_weights = { (var.url) = 2 }
  model       = var.model
  models      = { (var.model) = 3, lora = 1 }
}

grid "documents" {
  description = "another API"
  op          = "rerank"
  axis "isl" { values = [20] }
}

grid "replay" {
  description = "the trace has the lengths and the times"
  op          = "load"
  axis "concurrency" { values = [8] }
}

# Requests arrive at a rate, whether or not earlier ones have ended.
collect "rate" {
  grid    = grid.point
  runtime = runtime.server

  load {
    request_rate       = 40
    request_rate_ramp  = 0.2
    arrival            = "gamma"
    arrival_smoothness = 2
    concurrency        = 16
    duration           = 1
    grace              = 10
    slo                = { ttft = 500, inter_token_latency = 50 }

    # What ends the load early.
    max_errors             = 5
    max_error_rate         = 0.1
    max_consecutive_errors = 3
    over_saturation        = 10

    # Metrics of each half second, and of the server every quarter.
    slice          = 0.5
    server_metrics = 0.25
  }
}

# Users send turns of conversations at a fixed pace of their own.
collect "users" {
  grid    = grid.point
  runtime = runtime.server

  load {
    users        = 4
    request_rate = 20
    requests     = 12
    turns        = 2
  }
}

# Conversations share system prompts and take several turns with pauses.
collect "conversations" {
  grid    = grid.point
  runtime = runtime.server

  load {
    concurrency         = 4
    concurrency_ramp    = 0.2
    prefill_concurrency = 2
    sessions            = 6
    turns               = 2
    turns_stddev        = 1
    turn_delay          = 0.02
    turn_delay_stddev   = 0.01
    prefix_length       = 30
    prefix_pool         = 2
    entries             = 3
    sampling            = "shuffle"
    cache_reset         = "never"
  }
}

# Closed batches: the next one follows when the last request has ended.
collect "batches" {
  grid    = grid.point
  runtime = runtime.server

  load {
    batch       = 4
    requests    = 8
    request_log = "none"
  }
}

# A recorded trace, at twice its speed.
collect "trace" {
  grid    = grid.replay
  runtime = runtime.server

  load {
    trace       = "load_patterns.jsonl"
    trace_speed = 2
  }
}

# Prompts of a file, with system messages and tools.
collect "prompts" {
  grid    = grid.prompts
  runtime = runtime.servers

  load {
    dataset     = "load_prompts.jsonl"
    concurrency = 2
  }
}

# Images beside the text.
collect "images" {
  grid    = grid.point
  runtime = runtime.servers

  load {
    requests     = 4
    images       = 1
    image_width  = 64
    image_height = 64
  }
}

# Documents that are ranked by a query.
collect "rerank" {
  grid    = grid.documents
  runtime = runtime.servers

  load {
    requests     = 8
    documents    = 5
    query_length = 8
  }
}

# The highest concurrency that meets limits, each tried twice.
collect "limit" {
  grid    = grid.point
  runtime = runtime.server

  load {
    requests = 8
    repeats  = 2
  }

  search {
    over      = "concurrency"
    min       = 1
    max       = 4
    tolerance = 0.1
    slo       = { ttft_p99 = 1000, error_rate = 0 }
  }
}

# Clients give up some requests.
collect "cancelled" {
  grid    = grid.point
  runtime = runtime.server

  load {
    concurrency  = 4
    requests     = 20
    cancel_share = 0.2
    cancel_delay = 0.01
  }
}
