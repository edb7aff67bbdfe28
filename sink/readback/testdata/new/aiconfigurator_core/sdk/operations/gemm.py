class GEMM:
    def __init__(self, name, scale_factor, n, k, quant_mode):
        self.query = {"n": n, "k": k, "dtype": quant_mode.name}
