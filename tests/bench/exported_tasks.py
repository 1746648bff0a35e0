"""The models of exported_models, each with inputs and labels: of torchvision, of transformers, and small ones of its own.
Models of packages that are not there are left out."""
import inspect
import sys

import torch
import torch.nn.functional as F
from torch import nn

SAMPLES, CLASSES, WORDS, LENGTH = 16, 10, 64, 12


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


class Task:
    """A model with its inputs by name, its labels, and what jobs/exported is told of it."""

    def __init__(self, model, inputs, labels, options=(), output=lambda y: y):
        self.model, self.inputs, self.labels, self.options, self.output = model, inputs, labels, options, output

    def loss(self, model):
        scores = self.output(model(**self.inputs))
        if scores.shape[0] == self.labels.shape[0] and scores.shape[:-1] == self.labels.shape:
            return F.cross_entropy(scores.flatten(0, -2), self.labels.flatten())
        return F.cross_entropy(scores, self.labels)


def image_task(make, size=64):
    model = make()
    return Task(model, {"x": torch.rand(SAMPLES, 3, size, size)}, torch.randint(CLASSES, (SAMPLES,)))


def torchvision_tasks():
    import torchvision.models as zoo
    names = ("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small",
             "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_1", "vgg11_bn")
    for name in names:
        yield name, lambda name=name: image_task(lambda: getattr(zoo, name)(num_classes=CLASSES))
    yield "googlenet", lambda: image_task(lambda: zoo.GoogLeNet(CLASSES, aux_logits=False, init_weights=True))
    yield "vit_b_16", lambda: image_task(lambda: zoo.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=CLASSES), 32)
    yield "swin", lambda: image_task(lambda: zoo.SwinTransformer([4, 4], 24, [2, 2], [2, 2], [4, 4], num_classes=CLASSES), 32)

    def segmentation(make):
        model, images = make(), torch.rand(SAMPLES, 3, 64, CLASSES)  # as wide as there are classes
        name = next(iter(inspect.signature(model.forward).parameters))
        return Task(model, {name: images}, torch.randint(CLASSES, (SAMPLES, 64, CLASSES)), ["--output", "out"],
                    lambda y: y["out"])

    import torchvision.models.segmentation as segments
    for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
        yield name, lambda name=name: segmentation(
            lambda: getattr(segments, name)(weights=None, weights_backbone=None, num_classes=CLASSES))

    class Deformable(nn.Module):
        def __init__(self):
            super().__init__()
            from torchvision.ops import DeformConv2d
            self.offsets, self.bend, self.head = nn.Conv2d(3, 18, 3), DeformConv2d(3, 8, 3), nn.Linear(8, CLASSES)

        def forward(self, x):
            return self.head(torch.relu(self.bend(x, self.offsets(x))).mean((2, 3)))

    yield "deform_conv2d", lambda: image_task(Deformable, 16)


def transformers_tasks():
    import transformers as hub
    small = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                 max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=CLASSES)
    mask = (torch.arange(LENGTH) < torch.randint(3, LENGTH + 1, (SAMPLES, 1))).long()
    words, labels = torch.randint(WORDS, (SAMPLES, LENGTH)), torch.randint(CLASSES, (SAMPLES,))

    def classifier(kind, **more):
        config = getattr(hub, kind + "Config")(**{**small, **more})
        model = Logits(getattr(hub, kind + "ForSequenceClassification")(config))
        return Task(model, {"input_ids": words, "attention_mask": mask}, labels)

    for kind in ("Albert", "Bert", "Roberta", "Electra"):
        more = {"embedding_size": 32} if kind in ("Albert", "Electra") else {}
        yield kind.lower(), lambda kind=kind, more=more: classifier(kind, **more)
    yield "distilbert", lambda: classifier("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0,
                                           attention_dropout=0.0, seq_classif_dropout=0.0)

    def language(kind, **more):
        config = getattr(hub, kind + "Config")(use_cache=False, **more)
        model = Logits(getattr(hub, kind + ("LMHeadModel" if kind == "GPT2" else "ForCausalLM"))(config))
        targets = torch.where(mask.roll(-1, 1) == 1, words.roll(-1, 1), -100)
        return Task(model, {"input_ids": words, "attention_mask": mask}, targets)

    yield "gpt2", lambda: language("GPT2", vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    for kind in ("Llama", "Mistral", "Qwen2"):
        yield kind.lower(), lambda kind=kind: language(
            kind, vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=64, max_position_embeddings=32)
    yield "opt", lambda: language("OPT", vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                  max_position_embeddings=32, word_embed_proj_dim=32, dropout=0.0)

    def vit():
        config = hub.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
                               patch_size=8, num_labels=CLASSES)
        return Task(hub.ViTForImageClassification(config), {"pixel_values": torch.rand(SAMPLES, 3, 32, 32)}, labels,
                    ["--output", "logits"], lambda y: y.logits)

    yield "vit", vit

    class Translate(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, source, decoder_input_ids):
            return self.model(source, decoder_input_ids=decoder_input_ids, use_cache=False).logits

    def t5():
        config = hub.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
                              decoder_start_token_id=0)
        model = Translate(hub.T5ForConditionalGeneration(config))
        return Task(model, {"source": words, "decoder_input_ids": words.roll(1, 1)}, words)

    def bart():
        config = hub.BartConfig(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, dropout=0.0,
                                max_position_embeddings=32)
        model = Translate(hub.BartForConditionalGeneration(config))
        return Task(model, {"source": words, "decoder_input_ids": words.roll(1, 1)}, words)

    def whisper():
        config = hub.WhisperConfig(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                   decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, dropout=0.0,
                                   num_mel_bins=8, max_source_positions=16, max_target_positions=32, pad_token_id=0,
                                   bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
        model = Translate(hub.WhisperForConditionalGeneration(config))
        return Task(model, {"source": torch.rand(SAMPLES, 8, 32), "decoder_input_ids": words.roll(1, 1)}, words)

    yield "t5", t5
    yield "bart", bart
    yield "whisper", whisper


def own_tasks():
    class Cond(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.bright, self.dark = nn.Linear(48, 16), nn.Linear(16, CLASSES), nn.Linear(16, CLASSES)

        def forward(self, x):
            y = torch.tanh(self.first(x.flatten(1)))
            return torch.cond(y.sum() > 0, lambda y: self.bright(y), lambda y: self.dark(y).cos(), (y,))

    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.head = nn.Parameter(torch.randn(25, 8, dtype=torch.complex64) / 5), nn.Linear(16, CLASSES)

        def forward(self, x):
            return self.head(torch.view_as_real(torch.fft.rfft(x.flatten(1)) @ self.weight).flatten(1))

    class Beside(nn.Module):
        """A table beside images."""

        def __init__(self):
            super().__init__()
            self.conv, self.columns, self.head = nn.Conv2d(3, 8, 3), nn.Linear(5, 8), nn.Linear(8, CLASSES)

        def forward(self, x, columns):
            return self.head(torch.relu(self.conv(x)).mean((2, 3)) + self.columns(columns))

    class Edges(nn.Module):
        """Nodes learn from their neighbors."""

        def __init__(self):
            super().__init__()
            self.own, self.other = nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

        def forward(self, nodes, edges):
            to = edges[:, :1].movedim(1, 2).expand(-1, -1, nodes.shape[2])
            seen = torch.zeros_like(nodes).scatter_add(1, to, nodes.gather(1, edges[:, 1:].movedim(1, 2).expand_as(to)))
            return self.own(nodes) + self.other(seen)

    yield "cond", lambda: image_task(Cond, 4)
    yield "complex", lambda: image_task(Waves, 4)
    yield "lstm", lambda: Task(Recurrent(), {"x": torch.rand(SAMPLES, LENGTH, 5)}, torch.randint(CLASSES, (SAMPLES, LENGTH)),
                               ["--classes", "last"])
    yield "table_beside_images", lambda: Task(Beside(), {"x": torch.rand(SAMPLES, 3, 8, 8), "columns": torch.randn(SAMPLES, 5)},
                                              torch.randint(CLASSES, (SAMPLES,)))
    yield "edges", lambda: Task(Edges(), {"nodes": torch.randn(SAMPLES, 7, 5), "edges": torch.randint(7, (SAMPLES, 2, 9))},
                                torch.randint(CLASSES, (SAMPLES, 7)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.turns, self.head = nn.LSTM(5, 16, batch_first=True), nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.turns(x)[0])


def all_tasks():
    for tasks in (torchvision_tasks, transformers_tasks, own_tasks):
        try:
            yield from tasks()
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
