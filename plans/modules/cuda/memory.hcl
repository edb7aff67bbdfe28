# Memory-bound kernels: what a kernel reaches that does nothing but move bytes.

variable "largest_mb" { default = 4096 } # Largest array, in MiB.

grid "memory" {
  description = "copy, triad and reduction from arrays that fit the L2 cache to many times its size"

  axis "kernel" { values = ["copy", "triad", "reduce"] }
  # Bytes of each array.
  axis "size_bytes" { values = [for p in range(16, 33) : pow(2, p) if pow(2, p) <= var.largest_mb * 1048576] }
}

# What surrounds the matrix products of a layer.
grid "elementwise" {
  description = "normalisation, gate and quantisation of a token batch"
  axis "kernel" { values = ["rmsnorm", "silu_and_mul", "quantize_fp8", "quantize_fp8_block"] }
  axis "dtype" { values = ["bfloat16", "float16"] }
  axis "num_tokens" { values = powers(2, 0, 14) }
  axis "hidden_size" { values = [2048, 4096, 7168, 8192] }
}

output "memory" { value = grid.memory }
output "elementwise" { value = grid.elementwise }
