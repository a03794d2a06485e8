// Endpoints: CH_ENDPOINT(method, path, function, flags). A path ending in / takes whatever follows as its argument.
// CH_EP_ENGINE: 503 until the model is loaded. CH_EP_KEY: needs the API key where one is set.
CH_ENDPOINT("POST", "/v1/chat/completions", ch_serve_answer_chat, CH_EP_ENGINE | CH_EP_KEY)
CH_ENDPOINT("GET", "/v1/models", ch_serve_answer_models, CH_EP_ENGINE | CH_EP_KEY)
CH_ENDPOINT("GET", "/v1/models/", ch_serve_answer_model, CH_EP_ENGINE | CH_EP_KEY)
CH_ENDPOINT("GET", "/health", ch_serve_answer_health, 0)
CH_ENDPOINT("GET", "/metrics", ch_serve_answer_metrics, CH_EP_ENGINE | CH_EP_KEY)
CH_ENDPOINT("GET", "/", ch_serve_answer_root, 0)
