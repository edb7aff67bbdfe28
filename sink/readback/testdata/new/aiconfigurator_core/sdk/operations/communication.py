class NCCL:
    def __init__(self, name, scale_factor, nccl_op, num_elements_per_token, num_gpus, comm_quant_mode):
        self.query = {"op": nccl_op, "each": num_elements_per_token, "num_gpus": num_gpus, "dtype": comm_quant_mode.name}
