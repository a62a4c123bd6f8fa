"""Words that many configurations share, by what they mean. A tool adds its own and may give a word another meaning."""

from __future__ import annotations

from collections.abc import Mapping

COMMON: Mapping[str, tuple[str, ...]] = {
    # noise
    "multiplier": ("noise_multiplier", "dp_noise_multiplier", "noise_mult", "noise.multiplier"),
    "noise_std": ("noise_std", "noise_stddev", "noise_standard_deviation", "gaussian_std", "noise.std", "noise.stddev"),
    "sigma": ("sigma", "dp_sigma", "noise_sigma", "noise_scale"),
    "noise_on": ("noise_on", "noise_added_to", "noise_applied_to", "noise_placement", "noise_position"),
    "noise_per": ("noise_per", "layer_noise"),
    "schedule": ("noise_scheduler", "noise_schedule", "noise_scheduler.type", "noise_scheduler.name", "noise_schedule.type", "noise_schedule.name"),
    "gamma": ("gamma", "noise_gamma", "noise_decay", "noise_scheduler.gamma", "noise_schedule.gamma"),
    "step_size": ("step_size", "noise_step_size", "noise_scheduler.step_size", "noise_schedule.step_size"),
    "every": ("noise_scheduler_every", "noise_scheduler.every", "noise_schedule.every", "noise_step_every"),
    "noise_seed": ("noise_seed", "dp_seed", "torch_seed_is_fixed", "noise_generator_seed"),
    "seed": ("seed", "random_seed", "manual_seed", "data_seed", "model_random_seed", "torch_seed"),
    "secure": ("secure_mode", "secure_rng"),
    "arithmetic": ("noise_dtype", "noise_precision", "arithmetic"),
    # clipping
    "clip": (
        *("max_grad_norm", "clip_norm", "clipping_norm", "l2_norm_clip", "l2_clip_norm", "l2_clip", "clip", "clipping_threshold"),
        *("clipping_bound", "clip_bound", "grad_clip_norm", "max_grad_norms", "gradient_clip", "max_per_sample_grad_norm"),
        *("per_sample_max_grad_norm", "per_example_max_grad_norm", "initial_clipping_norm", "initial_clip_norm", "clipping_value", "clip_value"),
    ),
    "style": ("clipping", "clipping_style", "clipping_type", "clip_per", "clipping.type", "clipping.style"),
    "mode": ("clipping_mode", "grad_sample_mode", "ghost_clipping", "use_ghost_clipping", "clipping_fn"),
    "tensors": ("clipped_tensors", "num_tensors", "num_clipped_layers", "clipped_layers", "parameter_tensors", "num_parameter_tensors"),
    "clip_schedule": (
        *("clip_scheduler", "grad_clip_scheduler", "clip_schedule", "max_grad_norm_scheduler"),
        *("clip_scheduler.type", "grad_clip_scheduler.type", "clip_schedule.type", "grad_clip_scheduler.name"),
    ),
    "clip_gamma": ("clip_gamma", "clip_decay", "clip_scheduler.gamma", "grad_clip_scheduler.gamma", "clip_schedule.gamma"),
    "clip_step_size": ("clip_step_size", "clip_scheduler.step_size", "grad_clip_scheduler.step_size", "clip_schedule.step_size"),
    "adaptive": ("adaptive_clipping", "adaptive_clip", "use_adaptive_clipping"),
    "count_noise": (
        *("unclipped_num_std", "clipped_count_stddev", "clipped_count_std", "count_noise_std", "count_stddev", "unclipped_count_std"),
        "bit_noise_std",
    ),
    "clip_rule": (
        *("target_unclipped_quantile", "target_clipped_quantile", "target_quantile", "clipbound_learning_rate", "clip_norm_lr"),
        *("max_clipbound", "min_clipbound", "clipping_learning_rate", "rescale_to_unit_norm", "loss_reduction"),
    ),
    # batches
    "batch": ("batch_size", "train_batch_size", "bs"),
    "logical": (
        *("lot_size", "expected_batch_size", "logical_batch_size", "global_batch_size", "total_batch_size", "effective_batch_size"),
        *("virtual_batch_size", "batch_size.total", "batch_size.init_value", "target_batch_size"),
    ),
    "device_batch": (
        *("per_device_train_batch_size", "per_gpu_train_batch_size", "batch_size_per_device", "per_device_batch_size", "batch_size_per_gpu"),
        *("micro_batch_size", "train_micro_batch_size_per_gpu", "batch_size_per_worker"),
    ),
    "physical": (
        *("max_physical_batch_size", "physical_batch_size", "per_device_per_step", "per_device_physical_batch_size", "max_batch_in_memory"),
        *("memory_batch_size", "batch_size.per_device_per_step"),
    ),
    "accumulation": (
        *("gradient_accumulation_steps", "accumulation_steps", "grad_accum_steps", "accumulate_grad_batches", "n_accumulation_steps"),
        *("accum_steps", "grad_accumulation_steps", "virtual_batch_rate", "num_accumulation_steps", "gradient_accumulation"),
    ),
    "workers": ("world_size", "num_gpus", "n_gpus", "n_gpu", "num_devices", "nproc_per_node", "devices", "gpus", "num_processes", "distributed_workers"),
    "nodes": ("num_nodes", "nnodes"),
    "n": (
        *("n", "num_samples", "number_of_samples", "sample_size", "dataset_size", "num_examples", "number_of_examples", "train_size"),
        *("num_train_examples", "n_train", "training_set_size", "num_train_samples", "num_records", "data_size", "train_set_size", "dataset_length"),
    ),
    "rate": ("sample_rate", "sampling_rate", "sampling_probability", "sampling_prob", "q", "subsampling_rate", "sample_probability"),
    "epochs": ("epochs", "num_epochs", "num_train_epochs", "n_epochs", "max_epochs", "epoch", "total_epochs"),
    "steps": (
        *("steps", "num_steps", "max_steps", "train_steps", "num_train_steps", "total_steps", "iterations", "num_iterations", "num_updates"),
        *("max_train_steps", "n_steps", "training_steps", "num_training_steps", "total_train_steps"),
    ),
    "steps_per_epoch": ("steps_per_epoch",),
    "drop_last": ("drop_last", "dataloader_drop_last", "drop_remainder"),
    "poisson": ("poisson_sampling", "poisson", "use_poisson_sampling", "poisson_subsampling"),
    "sampler": ("sampling", "sampler", "sampling_method", "batch_sampling", "sampling_scheme", "batch_selection", "sampling.method", "sampling.type"),
    "shuffle": ("shuffle", "shuffle_buffer_size", "shuffle_buffer", "reshuffle_each_iteration"),
    # what is said
    "epsilon": ("epsilon", "eps", "dp_epsilon", "achieved_epsilon", "final_epsilon", "reported_epsilon", "spent_epsilon", "claimed_epsilon"),
    "target_epsilon": ("target_epsilon", "target_eps", "epsilon_target", "stop_training_at_epsilon", "privacy_budget", "max_epsilon"),
    "delta": ("delta", "target_delta", "dp_delta", "delta_target"),
    "accountant": ("accountant", "accountant_type", "accounting_mode", "accounting", "accountant_name", "dp_accountant"),
    "unit": ("unit", "privacy_unit", "protection_unit", "dp_level", "privacy_level"),
    "relation": ("neighbouring", "neighboring", "neighbouring_relation", "neighboring_relation", "adjacency", "neighbours", "neighbors", "relation"),
    "records": (
        *("max_examples_per_user", "records_per_user", "examples_per_user", "max_records_per_user", "max_contributions_per_user"),
        *("contributions", "max_records_per_unit", "records_per_unit"),
    ),
    "on": ("enable_dp", "use_dp", "dp_enabled", "private", "dp", "differential_privacy", "dp.enabled", "privacy.enabled", "differential_privacy.enabled"),
    "off": ("non_private", "disable_dp", "no_dp"),
    # clients
    "clients": (
        *("num_clients", "total_clients", "client_num_in_total", "n_clients", "population", "num_supernodes", "clients_total"),
        *("num_total_clients", "num_users", "total_users", "client_population"),
    ),
    "per_round": (
        *("clients_per_round", "num_sampled_clients", "client_num_per_round", "sampled_clients", "users_per_round", "cohort_size"),
        *("expected_clients_per_round", "clients_per_iteration"),
    ),
    "fraction": (
        *("fraction_fit", "fraction_train", "client_fraction", "frac", "participation_rate", "sample_fraction", "client_sampling_rate"),
        "client_sampling_fraction",
        "fraction",
    ),
    "rounds": ("num_rounds", "rounds", "comm_round", "num_server_rounds", "communication_rounds", "global_rounds", "n_rounds", "total_rounds"),
    "local_epochs": ("local_epochs", "local_steps", "client_epochs", "local_ep"),
    "local_batch": ("local_batch_size", "local_bs", "client_batch_size"),
    "weighting": ("weighting", "client_weighting", "weighted_aggregation", "aggregation_weights"),
}
