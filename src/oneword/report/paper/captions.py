"""Titles and captions of the figures. Each caption says which kind of number is drawn."""

CAPTIONS = {
    "contrast": (
        "How S changes with the length of the text",
        "Dots are trials, marks their medians: searched, so lower bounds on S. Bands reach up to the median "
        "certificate, an upper bound, where it is less than three times the value. Dashed: fits of log S on log n "
        "over all trials. Dotted: the slopes −½ and 0, to compare with.",
    ),
    "fig2-random-features": (
        "Fig. 2: fully connected layers",
        "S of RF for each dimension d, and of deep RF for each depth L: searched, so lower bounds. Dots are trials, "
        "medians are joined; the band reaches up to the median certificate, an upper bound. Dotted: slope −½.",
    ),
    "fig3-attention": (
        "Fig. 3: attention layers",
        "S of attention with softmax and with ReLU for each dimension d: searched, so lower bounds. Dots are "
        "trials, medians are joined; at the largest d the band reaches up to the median certificate, an upper "
        "bound. Dotted: slopes 0 and −½.",
    ),
    "scores": (
        "Which score functions keep word sensitivity",
        "S of attention whose weights come from the scores in six ways, for the same texts and the same W: softmax and "
        "sparsemax let one word draw all attention, the others do not. Dots are trials, marks their medians: searched, "
        "so lower bounds on S; slopes are fits of log S on log n over all trials. Dotted: slopes 0 and −½.",
    ),
    "families": (
        "Real, Gaussian and clustered words",
        "The theorems assume nothing about how words are distributed: the same curves for each family of words at "
        "the largest d. Searched, so lower bounds on S.",
    ),
    "kinds": (
        "Kinds of number, side by side",
        "Medians over trials. The sup over the ball ‖Δ‖ ≤ √d lies between what was searched (a lower bound) and "
        "what is certified (an upper bound). Real words mostly lie outside that ball, at ‖Δ‖ of about 1.3 to 1.4 "
        "√d, so neither bounds them; their changes are exact for the words that were tried.",
    ),
    "mass": (
        "Why softmax attention notices: where the attention goes",
        "The mean attention that all words pay to the changed word i, before and after the change that the search "
        "found. Exact for that change.",
    ),
    "n-over-d": (
        "S of RAF against n/d",
        "T3 asks for d/log⁴d = Ω(n). At widths below about 5,500, log⁴d is larger than d, so the condition is not met "
        "and what is seen here goes beyond the theorem. Drawn against n/d, the curves show from where on a text is too "
        "long for its dimension. Searched, so lower bounds on S.",
    ),
    "m-words": (
        "Changing several words at once",
        "S when m words may change, each by at most √d. Positions are chosen greedily, so these are lower bounds. "
        "Dashed: the prediction for RF, of which a constant share of the words must change; attention needs one.",
    ),
    "positions": (
        "All positions, or the first alone",
        "The sup of Eq. 1 is over positions too. Changing only position 0, the [CLS] token of a review, can only "
        "give less. Searched, so lower bounds.",
    ),
    "fig4-fine-tuned": (
        "Fig. 4: the error on the changed text after fine-tuning",
        "One dot a lesson and objective: the model was fine-tuned on the new text alone (T4). Solid: (2−γ)², the "
        "bound of RF as n → ∞. Dashed: max(0, 2−γ−ε)², its bound at this n, with the median ε of the lessons; the "
        "shaded region below it is out of reach for RF, and not for RAF. Errors are exact for the change that was "
        "found; those above 9 are drawn at 9.",
    ),
    "fig5-retrained": (
        "Fig. 5: the error on the changed text after retraining",
        "The same after retraining on all texts and the new one (T5).",
    ),
    "frontier": (
        "The frontier: the lowest error under γ ≤ g",
        "Medians over lessons, bands from quartile to quartile. Every error is attained by a change that was found, "
        "so the true frontier lies at or below. Solid: (2−g)², the bound of RF as n → ∞, which RF itself can undercut "
        "at a finite n. Dashed: max(0, 2−g−ε)², its bound at its longest texts, with the median ε of the lessons. The "
        "claims compare each lesson with its own bound.",
    ),
    "objectives": (
        "Three objectives to choose the change by",
        "The error minus max(0, 2−γ−ε)², the bound of RF at these sizes (ε goes to 0 as n grows), one dot a lesson: "
        "below 0 is where RF cannot be. Exact for the change that was found; what is above 9 is drawn at 9.",
    ),
    "fig1-attention-maps": (
        "Fig. 1: one word changes where a trained layer looks",
        "Attention of the first layer of {encoder}, averaged over heads: from the word of the row to that of the "
        "column. Exact.",
    ),
}
