"""Why a member left its group: evidence of one departure in, causes with confidences out."""
